#include "trainer/control/generation_store.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <utility>

namespace lockstep::train {
namespace {

constexpr Duration kSetTimeout = std::chrono::seconds(10);

absl::Status FromGrpc(const grpc::Status& status, const char* what, const std::string& key,
                      Duration timeout) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(
        fmt::format("rendezvous store: {} \"{}\": not done after {:.3g} s", what, key,
                    std::chrono::duration<double>(timeout).count()));
  }
  // A store that cannot be reached is gone with its generation: the stream beside it breaks too.
  return absl::CancelledError(
      fmt::format("rendezvous store: {} \"{}\": {}", what, key, status.error_message()));
}

absl::Status NoGeneration(const char* what, const std::string& key) {
  return absl::CancelledError(
      fmt::format("rendezvous store: {} \"{}\": the generation has ended", what, key));
}

}  // namespace

GenerationStore::GenerationStore(api::JobToken token, std::function<Target()> current)
    : token_(std::move(token)), current_(std::move(current)) {}

std::string GenerationStore::Prove(const Target& target, const std::string& key,
                                   const std::string& value) const {
  return token_.Prove(api::kProofOfStore, target.challenge.nonce(),
                      api::StoreProofContent(target.generation, key, value));
}

absl::Status GenerationStore::Set(const std::string& key, const std::string& value) {
  const Target target = current_();
  if (!target.stream) return NoGeneration("set", key);
  proto::PutRequest request;
  request.set_generation(target.generation);
  request.set_key(key);
  request.set_value(value);
  request.set_session(target.challenge.session());
  request.set_proof(Prove(target, key, value));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSetTimeout);
  proto::PutResponse response;
  return FromGrpc(target.stream->stub().Put(&context, request, &response), "set", key, kSetTimeout);
}

absl::StatusOr<std::string> GenerationStore::Get(const std::string& key, Duration timeout) {
  const Target target = current_();
  if (!target.stream) return NoGeneration("get", key);
  proto::GetRequest request;
  request.set_generation(target.generation);
  request.set_key(key);
  request.set_session(target.challenge.session());
  request.set_proof(Prove(target, key, ""));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  proto::GetResponse response;
  const grpc::Status status = target.stream->stub().Get(&context, request, &response);
  if (!status.ok()) return FromGrpc(status, "get", key, timeout);
  return response.value();
}

}  // namespace lockstep::train
