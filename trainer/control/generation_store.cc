#include "trainer/control/generation_store.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "api/base/status.h"

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

std::string GenerationStore::Prove(const Target& target, const std::string& content) const {
  return token_.Prove(api::kProofOfStore, target.challenge.nonce(), content);
}

absl::Status GenerationStore::Set(const std::string& key, const std::string& value) {
  const Target target = current_();
  if (!target.stream) return NoGeneration("set", key);
  proto::PutRequest request;
  request.set_generation(target.generation);
  request.set_key(key);
  request.set_value(value);
  request.set_session(target.challenge.session());
  request.set_proof(Prove(target, api::StoreProofContent(target.generation, {key}, value)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSetTimeout);
  proto::PutResponse response;
  return FromGrpc(target.stream->stub().Put(&context, request, &response), "set", key, kSetTimeout);
}

absl::StatusOr<std::string> GenerationStore::Get(const std::string& key, Duration timeout) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<std::string> values, GetAll({key}, timeout));
  return std::move(values.front());
}

absl::StatusOr<std::vector<std::string>> GenerationStore::GetAll(
    const std::vector<std::string>& keys, Duration timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<std::string> values;
  while (values.size() < keys.size()) {
    const Duration left = deadline - std::chrono::steady_clock::now();
    LOCKSTEP_RETURN_IF_ERROR(
        GetSome(keys, values.size(), std::max(left, Duration::zero()), values));
  }
  return values;
}

absl::Status GenerationStore::GetSome(const std::vector<std::string>& keys, std::size_t first,
                                      Duration timeout, std::vector<std::string>& values) const {
  const Target target = current_();
  const std::size_t end = std::min(keys.size(), first + kMostKeysOfAGet);
  const std::string what =
      end - first == 1 ? keys[first] : fmt::format("{} to {}", keys[first], keys[end - 1]);
  if (!target.stream) return NoGeneration("get", what);
  proto::GetRequest request;
  request.set_generation(target.generation);
  for (std::size_t at = first; at < end; ++at) request.add_keys(keys[at]);
  request.set_session(target.challenge.session());
  request.set_proof(
      Prove(target, api::StoreProofContent(target.generation,
                                           {request.keys().begin(), request.keys().end()}, "")));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  proto::GetResponse response;
  const grpc::Status status = target.stream->stub().Get(&context, request, &response);
  if (!status.ok()) return FromGrpc(status, "get", what, timeout);
  if (response.values_size() != request.keys_size()) {
    return absl::CancelledError(
        fmt::format("rendezvous store: get \"{}\": found {} values, expected {}", what,
                    response.values_size(), request.keys_size()));
  }
  for (std::string& value : *response.mutable_values()) values.push_back(std::move(value));
  return absl::OkStatus();
}

}  // namespace lockstep::train
