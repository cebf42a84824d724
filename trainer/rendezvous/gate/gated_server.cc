#include "trainer/rendezvous/gate/gated_server.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace lockstep::train {
namespace {

constexpr int kLargestMessage = 2 << 20;  // the largest is a Put of a store value
// Concurrent calls per connection. A process has its session and one or two store calls.
constexpr int kMostCalls = 8;

}  // namespace

absl::Status GatedServer::Start(const std::string& address, std::size_t members, const Clock& clock,
                                std::initializer_list<grpc::Service*> services) {
  StartGrpc();
  absl::StatusOr<std::unique_ptr<ConnectionGate>> gate =
      ConnectionGate::Listen(address, members, clock);
  if (!gate.ok()) {
    return absl::UnavailableError(
        fmt::format("cannot listen at {}: {}", address, std::string(gate.status().message())));
  }
  gate_ = *std::move(gate);
  grpc::ServerBuilder builder;
  SetServerOptions(builder);
  builder.SetMaxReceiveMessageSize(kLargestMessage);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostCalls);
  // Members do not compress, and 16 KiB from a stranger could decompress to 16 MiB.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  acceptor_ = AcceptSockets(builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (!server_) {
    return absl::UnavailableError(fmt::format("cannot serve at {}: gRPC did not start", address));
  }
  gate_->Open([this](Descriptor caller) { HandOver(std::move(caller), *acceptor_); });
  return absl::OkStatus();
}

void GatedServer::Stop() {
  if (gate_) gate_->Close();
  if (!server_) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

}  // namespace lockstep::train
