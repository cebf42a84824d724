#include "trainer/rendezvous/generation_store.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <stop_token>
#include <utility>

#include "base/status.h"

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
  // The stream uses the same connection and breaks too, which ends the generation.
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
  request.set_proof(Prove(target, api::PutProofContent(target.generation, key, value)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kSetTimeout);
  proto::PutResponse response;
  return FromGrpc(target.stream->stub().Put(&context, request, &response), "set", key, kSetTimeout);
}

absl::StatusOr<std::vector<std::string>> GenerationStore::GetAll(
    const std::vector<std::string>& keys, const GetOptions& options) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + options.timeout;
  std::vector<std::string> values;
  GetOptions rest = options;
  while (values.size() < keys.size()) {
    rest.timeout = std::max<Duration>(deadline - std::chrono::steady_clock::now(), {});
    LOCKSTEP_RETURN_IF_ERROR(GetSome(keys, values.size(), rest, values));
  }
  return values;
}

absl::Status GenerationStore::GetSome(const std::vector<std::string>& keys, std::size_t first,
                                      const GetOptions& options,
                                      std::vector<std::string>& values) const {
  const Target target = current_();
  const std::size_t end = std::min(keys.size(), first + kMostKeysOfAGet);
  const std::string what =
      end - first == 1 ? keys[first] : fmt::format("{} to {}", keys[first], keys[end - 1]);
  if (!target.stream) return NoGeneration("get", what);
  proto::GetRequest request;
  request.set_generation(target.generation);
  for (std::size_t at = first; at < end; ++at) request.add_keys(keys[at]);
  request.set_offset(options.offset);
  request.set_size(options.size);
  request.set_session(target.challenge.session());
  request.set_proof(
      Prove(target,
            api::GetProofContent(target.generation, {request.keys().begin(), request.keys().end()},
                                 options.offset, options.size)));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + options.timeout);
  const std::stop_callback cancel(options.stop, [&context] { context.TryCancel(); });
  proto::GetResponse response;
  const grpc::Status status = target.stream->stub().Get(&context, request, &response);
  if (!status.ok()) return FromGrpc(status, "get", what, options.timeout);
  if (response.values_size() != request.keys_size()) {
    return absl::CancelledError(
        fmt::format("rendezvous store: get \"{}\": found {} values, expected {}", what,
                    response.values_size(), request.keys_size()));
  }
  for (std::string& value : *response.mutable_values()) values.push_back(std::move(value));
  return absl::OkStatus();
}

}  // namespace lockstep::train
