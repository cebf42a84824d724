#include "operator/controller/rules/plan.h"

#include <algorithm>
#include <variant>

namespace lockstep::controller {

bool MakesPods(const Plan& plan) {
  return std::ranges::any_of(
      plan.actions, [](const Action& action) { return std::holds_alternative<CreatePod>(action); });
}

ActionKind KindOf(const Action& action) {
  return std::visit([](const auto& one) { return one.kKind; }, action);
}

bool IsCreate(const Action& action) {
  return KindOf(action) == ActionKind::kCreateForPods || KindOf(action) == ActionKind::kCreate;
}

int StageOf(const Action& action) {
  if (!IsCreate(action)) return 0;
  return KindOf(action) == ActionKind::kCreateForPods ? 1 : 2;
}

}  // namespace lockstep::controller
