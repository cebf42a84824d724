#include "trainer/rendezvous/gate/refusals.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/log.h"

namespace lockstep::train {
namespace {

constexpr auto kRefusalLogPeriod = std::chrono::seconds(10);

}  // namespace

const char* Describe(Refusal why) {
  switch (why) {
    case Refusal::kNoToken:
      return "does not know the job's token";
    case Refusal::kDialledElsewhere:
      return "has dialled another address than this process's own: a stranger has passed on the "
             "call, or a proxy or an address translation is between the job's pods";
  }
  LOCKSTEP_CHECK(false, "refusal: {} is none", static_cast<int>(why));
}

void Refusals::Add(Refusal why, const char* call) {
  Reason& reason = reasons_.at(static_cast<std::size_t>(why));
  ++reason.count;
  const SteadyTime now = clock_.SteadyNow();
  if (now < reason.next_log) return;
  reason.next_log = now + kRefusalLogPeriod;
  LogWarning(fmt::format("refused a caller that {}", Describe(why)),
             {{"call", call}, {"refusals", reason.count}});
}

std::int64_t Refusals::count() const {
  std::int64_t count = 0;
  for (const Reason& reason : reasons_) count += reason.count;
  return count;
}

}  // namespace lockstep::train
