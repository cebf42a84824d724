#include "trainer/plan/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

namespace lockstep::train {
namespace {

constexpr char kMoreServers[] =
    "; more replicas divide the model and the optimizer's state further, and a smaller batch "
    "changes nothing";

std::string Amount(std::size_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 10240 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

// The larger parts of a replica's memory first.
std::string PartsOf(const ReplicaMemory& memory) {
  std::vector<std::pair<std::size_t, const char*>> parts = {
      {memory.process, "the process"},
      {memory.data_sets, "data sets"},
      {memory.batches, "batches"},
      {memory.parameters, "parameters"},
      {memory.gradients, "gradients"},
      {memory.optimizer, "optimizer"},
      {memory.activations, "activations"},
      {memory.scratch, "scratch"},
      {memory.staging, "staging"},
      {memory.step, "the step's own"},
      {memory.servers, "parameter servers' values"},
      {memory.best, "the best model"},
      {memory.checkpoint, "checkpoints"}};
  std::ranges::sort(parts, std::greater());
  std::string text;
  for (std::size_t i = 0; i < 3 && parts[i].first > 0; ++i) {
    text += fmt::format("{}{} {}", i > 0 ? ", " : "", Amount(parts[i].first), parts[i].second);
  }
  return text;
}

// The first role whose pods exceed their limit; null: none.
const PlannedPods* OverLimit(const PlannedMemory& memory) {
  const auto found = std::ranges::find_if_not(memory.pods, &PlannedPods::FitsLimit);
  return found == memory.pods.end() ? nullptr : &*found;
}

std::string NeedOf(const PlannedMemory& memory, std::uint64_t available) {
  if (const PlannedPods* const over = OverLimit(memory)) {
    return fmt::format("a pod of {} needs {}, but its resources.limits.memory is {}",
                       api::RoleKey(over->role), Amount(over->bytes), Amount(*over->limit));
  }
  std::string roles;
  bool are_all = true;
  for (const PlannedPods& pods : memory.pods) {
    are_all = are_all && !pods.limit;
    if (!pods.limit)
      roles += fmt::format("{}{}", roles.empty() ? "" : ", ", api::RoleKey(pods.role));
  }
  return fmt::format(
      "{} need {}, but this machine has {} available; set resources.limits.memory of the pod "
      "template to plan for a cluster",
      are_all ? "all pods" : fmt::format("the pods without a limit ({})", roles),
      Amount(memory.WithoutLimit()), Amount(available));
}

// Why a job does not fit whose replicas compute one sample each.
std::string NeedOfOneSample(const PlannedMemory& least, std::uint64_t available) {
  const PlannedPods* const over = OverLimit(least);
  const std::string need = NeedOf(least, available);
  if (over != nullptr && over->role == api::Role::kParameterServer) {
    return need + kMoreServers;
  }
  if (over != nullptr && over->role == api::Role::kEvaluator) return need;
  return fmt::format("{}: a replica still needs {} ({})", need, Amount(least.replica.total()),
                     PartsOf(least.replica));
}

}  // namespace

std::string RefusalOf(const JobPlan& plan, const PlannedMemory& least) {
  const PlannedPods* const over = OverLimit(plan.memory);
  if (over != nullptr && over->role == api::Role::kParameterServer) {
    return fmt::format("spec.replicaSpecs.{}: {}{}", api::RoleKey(over->role),
                       NeedOf(plan.memory, plan.available), kMoreServers);
  }
  const std::string largest =
      plan.largest->per_replica > 0
          ? fmt::format("the largest batch that fits is {} per replica, {} globally",
                        plan.largest->per_replica, plan.largest->global)
          : fmt::format("no batch fits, not even one sample per replica, with which {}",
                        NeedOfOneSample(least, plan.available));
  return fmt::format(
      "spec.training.batchSize: with {} samples per replica, {}: a replica needs {} ({}); {}",
      plan.steps.plan.LocalBatch(), NeedOf(plan.memory, plan.available),
      Amount(plan.memory.replica.total()), PartsOf(plan.memory.replica), largest);
}

}  // namespace lockstep::train
