#include "operator/controller/state/dialects.h"

#include <string>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/state/main_container.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

Dialects DialectsOf(const api::TrainingJob& job, api::Role role) {
  if (api::UsesBundledTrainer(job)) return {.lockstep = true, .tensorflow = true};
  const api::Json* main = FindMainContainer(*job.spec.replica_specs.at(role).tmpl);
  const std::string name = main == nullptr ? "" : kube::TextMember(*main, "name");
  // torchrun tells each replica that trains alone that it is the first, so that only these tell
  // which one it is.
  const bool alone = api::TraitsOf(job.spec).trains_alone;
  if (name == api::kTensorFlowContainer) return {.lockstep = alone, .tensorflow = true};
  if (name == api::kPyTorchContainer) return {.lockstep = alone, .torch = true};
  if (name == api::kJaxContainer) return {.lockstep = alone, .jax = true};
  return {.lockstep = true, .tensorflow = true, .torch = true, .jax = true};
}

}  // namespace lockstep::controller
