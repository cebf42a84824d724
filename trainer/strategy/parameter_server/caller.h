// A worker's side of the streams to the parameter servers: who it is, and how a stream begins.
#pragma once

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "api/proto/parameter_server.grpc.pb.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "base/hmac.h"
#include "trainer/rendezvous/gate/dialled_host.h"
#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/rendezvous/service_name.h"
#include "trainer/strategy/parameter_server/data_stream.h"
#include "trainer/strategy/parameter_server/parameter_server.h"

namespace lockstep::train {

struct Caller {
  proto::Introduction who;  // without `server`, memory and proof
  api::JobToken token;
  // To look up a server's address and connect to it, or to all servers, and for their part of the
  // introduction. A server has as long for the caller's.
  Duration patience = std::chrono::seconds(5);
};

// "ps 1 at HOST:PORT", for messages.
inline std::string ServerName(int server, const std::string& address) {
  return fmt::format("ps {} at {}", server, address);
}

// A new channel, which shares no back-off and no resolved address with earlier ones.
inline std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  grpc::ChannelArguments options = ChannelOptions(kLargestDataMessage);
  options.SetMaxSendMessageSize(kLargestDataMessage);
  return grpc::CreateCustomChannel(
      AbsoluteServiceName(address.substr(0, colon)) + address.substr(colon),
      grpc::InsecureChannelCredentials(), options);
}

// Ends a stream and returns why it has ended: PermissionDenied if the server at this address
// refuses this caller, as a server of another run or with another index does; else Unavailable.
// `is_open`: the server has not ended it, but has broken the protocol.
template <typename Reply, typename Stream>
absl::Status EndOfStream(Stream& stream, grpc::ClientContext& context, bool is_open,
                         const std::string& server) {
  if (is_open) context.TryCancel();
  // What the server had sent before it ended the stream has to be read before its status.
  for (Reply reply; stream.Read(&reply);) {
  }
  const grpc::Status status = stream.Finish();
  const std::string text = fmt::format(
      "{}: {}", server, status.ok() ? "it closed the connection" : status.error_message());
  switch (status.error_code()) {
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::FAILED_PRECONDITION:
      return absl::PermissionDeniedError(text);
    default:
      return absl::UnavailableError(text);
  }
}

// Cancels a call if it is not stopped in time. gRPC's own deadline would hold for the whole stream.
class CallTimer {
 public:
  // May start before the call, so that it bounds the time to connect, too. Requires: `context`
  // outlives this.
  CallTimer(grpc::ClientContext& context, Duration patience)
      : context_(context), patience_(patience), thread_([this](const std::stop_token& stop) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any().wait_for(lock, stop, patience_, [] { return false; });
          if (stop.stop_requested()) return;
          has_cancelled_ = true;
          context_.TryCancel();
        }) {}
  // Stops the timer. Returns whether it has cancelled the call.
  bool Stop() {
    thread_.request_stop();
    thread_.join();
    return has_cancelled_;
  }
  grpc::ClientContext& context() const { return context_; }
  Duration patience() const { return patience_; }

 private:
  grpc::ClientContext& context_;
  const Duration patience_;
  bool has_cancelled_ = false;  // written by the thread, read once it has ended
  std::jthread thread_;         // last: uses the above
};

// Introduce, however long the server takes.
template <typename Stream, typename Reply, typename Request>
absl::Status IntroducePatiently(Stream& stream, grpc::ClientContext& context, const Caller& caller,
                                const std::string& server, Reply& reply, Request& request) {
  if (!stream.Read(&reply)) return EndOfStream<Reply>(stream, context, false, server);
  const std::string challenge = reply.challenge().nonce();
  proto::Introduction& who = *request.mutable_introduction();
  who.set_nonce(RandomBytes(32));
  who.set_dialled(HostOfPeer(context.peer()));
  who.set_proof(ProofOfIntroduction(caller.token, challenge, who));
  if (!stream.Write(request) || !stream.Read(&reply)) {
    return EndOfStream<Reply>(stream, context, false, server);
  }
  if (AcceptsServer(caller.token, challenge, who, reply.proof())) return absl::OkStatus();
  EndOfStream<Reply>(stream, context, true, server).IgnoreError();
  return absl::PermissionDeniedError(fmt::format(
      "{}: it does not prove that it knows the job's token, as each server of the job does",
      server));
}

// Answers the server's challenge with the introduction, and reads the server's answer to that.
// Returns EndOfStream's status if the stream has ended, PermissionDenied if the server does not
// prove that it knows the token, or Unavailable if `timer`, which is the stream's, has cancelled
// it: a stranger may have the address of a server's pod that is gone.
template <typename Stream, typename Reply, typename Request>
absl::Status Introduce(CallTimer& timer, Stream& stream, const Caller& caller,
                       const std::string& server, Reply& reply, Request& request) {
  absl::Status met = IntroducePatiently(stream, timer.context(), caller, server, reply, request);
  const bool is_late = timer.Stop();
  if (!is_late || absl::IsPermissionDenied(met)) return met;
  return absl::UnavailableError(fmt::format(
      "{}: it has not answered within {:.3g} s, which include the look-up of its address, "
      "expected a challenge and a proof that "
      "it knows the job's token",
      server, std::chrono::duration<double>(timer.patience()).count()));
}

}  // namespace lockstep::train
