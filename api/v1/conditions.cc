#include "api/v1/conditions.h"

#include <algorithm>
#include <iterator>

namespace lockstep::api {

std::string_view NameOf(FailureReason reason) {
  const auto it =
      std::ranges::find(kFailureReasons, reason, [](const auto& row) { return row.first; });
  return it == std::end(kFailureReasons) ? "" : it->second;
}

const Condition* FindCondition(const TrainingJobStatus& status, std::string_view type) {
  const auto it = std::ranges::find(status.conditions, type, &Condition::type);
  return it == status.conditions.end() ? nullptr : &*it;
}

bool IsTrue(const TrainingJobStatus& status, std::string_view type) {
  const Condition* condition = FindCondition(status, type);
  return condition != nullptr && condition->status == ConditionStatus::kTrue;
}

bool IsTerminal(const TrainingJobStatus& status) {
  return IsTrue(status, kSucceeded) || IsTrue(status, kFailed);
}

}  // namespace lockstep::api
