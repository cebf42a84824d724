#include "trainer/strategy/group_options.h"

#include <functional>
#include <string>
#include <utility>

#include "api/v1/job_token.h"

namespace lockstep::train {
namespace {

std::function<std::string(const std::string&, const std::string&)> ProverOf(
    const CollectiveOptions& options) {
  if (!options.token.present()) return nullptr;
  return [&token = options.token](const std::string& nonce, const std::string& text) {
    return token.Prove(api::kProofOfRank, nonce, text);
  };
}

}  // namespace

CommunicatorOptions GroupOptions(const Membership& membership, const CollectiveOptions& options,
                                 MemberCallers& callers, Duration timeout, std::stop_token cancel) {
  return {.rank = membership.rank,
          .size = membership.world(),
          .bind_address = options.bind_address,
          .callers = callers.Of(membership),
          .on_connected = [&callers](const absl::Status& connected,
                                     Duration took) { callers.Record(connected, took); },
          .connect_timeout = options.connect_timeout,
          .timeout = timeout,
          .allow_shm = options.allow_shm,
          .root_memory = nullptr,
          .prove = ProverOf(options),
          .cancel = std::move(cancel)};
}

}  // namespace lockstep::train
