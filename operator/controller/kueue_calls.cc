#include "operator/controller/kueue_calls.h"

#include <fmt/format.h>

#include "base/json_text.h"
#include "base/status.h"
#include "operator/controller/live_object.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::controller {

absl::StatusOr<std::optional<std::int64_t>> ReadPriority(kube::Client& client,
                                                         const api::TrainingJob& job) {
  const auto reference = PriorityOf(job);
  if (!reference) return std::optional<std::int64_t>();
  LOCKSTEP_ASSIGN_OR_RETURN(const kube::Object found,
                            client.Get(reference->kind, {"", reference->name}));
  const auto value = found.find("value");
  if (value == found.end() || !value->is_number_integer()) {
    return absl::InvalidArgumentError(fmt::format("{} {}: value: found {}, expected an integer",
                                                  reference->kind.kind, reference->name,
                                                  JsonText(kube::Member(found, "value"))));
  }
  return std::optional(value->get<std::int64_t>());
}

absl::Status ReadFlavors(kube::Client& client, std::map<std::string, kube::Object>& known,
                         ObservedWorkload& workload) {
  for (auto& [role, grant] : workload.granted) {
    for (const std::string& name : grant.flavors) {
      auto flavor = known.find(name);
      if (flavor == known.end()) {
        auto read = client.Get(kFlavorKind, {"", name});
        if (!read.ok()) {
          return {read.status().code(),
                  fmt::format("ResourceFlavor {}, which Kueue has granted to the {} pods: {}", name,
                              api::RoleName(role), std::string(read.status().message()))};
        }
        flavor = known.emplace(name, *std::move(read)).first;
      }
      AddFlavor(flavor->second, grant);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<kube::Object> ChangeSuspend(kube::Client& client, const kube::Identity& seen,
                                           const SetSuspend& change) {
  LOCKSTEP_ASSIGN_OR_RETURN(kube::Object job, ReadAsSeen(client, kTrainingJobKind, seen));
  job["spec"]["suspend"] = change.suspend;
  for (const auto& [role, count] : change.counts) {
    job["spec"]["replicaSpecs"][std::string(api::RoleKey(role))]["replicas"] = count;
  }
  return client.Update(kTrainingJobKind, job);
}

}  // namespace lockstep::controller
