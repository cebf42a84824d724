#include "trainer/rendezvous/gate/grpc_options.h"

#include <absl/base/internal/sysinfo.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>

#include <mutex>

#include "api/proto/protobuf_log.h"
#include "base/log.h"

namespace lockstep::train {
namespace {

// Their sum must be below 5 s, the longest that a lost peer may go undetected.
constexpr int kKeepaliveTimeMs = 2000;
constexpr int kKeepaliveTimeoutMs = 2500;
constexpr int kConnectTimeoutMs = 2000;  // a loaded host may need more than one second

void LogFromGrpc(gpr_log_func_args* args) {
  Log(LogLevel::kDebug, fmt::format("gRPC: {}", args->message),
      {{"source", fmt::format("{}:{}", args->file, args->line)}});
}

}  // namespace

grpc::ChannelArguments ChannelOptions(int largest_answer) {
  grpc::ChannelArguments options;
  options.SetMaxReceiveMessageSize(largest_answer);
  // gRPC decompresses before it checks the size: 4 MiB could become 4 GiB. Our servers do not
  // compress.
  options.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  options.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  options.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);  // also the connect timeout
  options.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  options.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  options.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 100);
  options.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, kConnectTimeoutMs);
  options.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  options.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  options.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  options.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Peers are in the cluster: ignore proxies in the environment and service configs in DNS.
  options.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  options.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return options;
}

void SetServerOptions(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kKeepaliveTimeMs / 2);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

std::unique_ptr<SocketAcceptor> AcceptSockets(grpc::ServerBuilder& builder) {
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  return builder.experimental().AddExternalConnectionAcceptor(External::FROM_FD,
                                                              grpc::InsecureServerCredentials());
}

void HandOver(Descriptor caller, SocketAcceptor& acceptor) {
  SocketAcceptor::NewConnectionParameters connection;
  connection.fd = caller.Release();
  acceptor.HandleNewConnection(&connection);
}

void StartGrpc() {
  static std::once_flag once;
  std::call_once(once, [] {
    gpr_set_log_function(&LogFromGrpc);
    proto::RouteProtobufLog();
    grpc_init();  // never undone
    // absl reads this when threads first queue for one of its mutexes, from a file that most
    // kernels lack, and leaves ENOENT in errno. gRPC 1.51 locks such mutexes between connect() and
    // its look at errno, and gave up connections that were being made: "No such file or directory".
    absl::base_internal::NominalCPUFrequency();
  });
}

}  // namespace lockstep::train
