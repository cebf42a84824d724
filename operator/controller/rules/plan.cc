#include "operator/controller/rules/plan.h"

#include <algorithm>

namespace lockstep::controller {
namespace {

// Returns true if the action creates what the job's pods cannot do without.
bool IsForPods(const Action& action) {
  return std::holds_alternative<CreateTokenSecret>(action) ||
         std::holds_alternative<CreateNetworkPolicy>(action) ||
         std::holds_alternative<CreateService>(action);
}

}  // namespace

bool MakesPods(const Plan& plan) {
  return std::ranges::any_of(
      plan.actions, [](const Action& action) { return std::holds_alternative<CreatePod>(action); });
}

bool IsCreate(const Action& action) {
  return IsForPods(action) || std::holds_alternative<CreatePod>(action) ||
         std::holds_alternative<CreatePodGroup>(action) ||
         std::holds_alternative<CreateWorkload>(action);
}

int StageOf(const Action& action) {
  if (!IsCreate(action)) return 0;
  return IsForPods(action) ? 1 : 2;
}

}  // namespace lockstep::controller
