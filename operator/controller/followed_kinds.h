// Every kind of object that the operator lists and watches, as one table. JobController makes its
// caches, Stores and handlers from it, and by JobController::Stats() the operator the metrics of
// caches and the checks of readiness, also of a process that does not lead.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <variant>

#include "api/v1/names.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/stores.h"
#include "operator/kube/cache/informer.h"

namespace lockstep::controller {

// What a change of an object does; see Informer::OnChange.
class ChangeHandlers {
 public:
  virtual void JobChanged(const kube::Cached<ObservedJob>* before,
                          const kube::Cached<ObservedJob>* after) = 0;
  // A child of any kind changed: enqueues the job that owns it. A new child that the job itself
  // created may wait for Settings::change_hold.
  virtual void ChildChanged(const kube::Identity* before, const kube::Identity* after) = 0;
  // As ChildChanged, but also for a change after which the pod is well.
  virtual void PodChanged(const kube::Cached<std::optional<ObservedPod>>* before,
                          const kube::Cached<std::optional<ObservedPod>>* after) = 0;
  virtual void NodeChanged(const kube::Cached<bool>* before, const kube::Cached<bool>* after) = 0;

 protected:
  ~ChangeHandlers() = default;
};

// A row of the table.
template <typename Value>
struct FollowedKind {
  kube::Kind kind;
  const kube::Store<Value>* Stores::* store;  // where Stores has the cache
  // Only objects that have this label; empty: all. Those that have a job's are its children.
  std::string_view label;
  std::optional<kube::FieldMask> fields;  // what the reader reads; nullopt: everything
  typename kube::Informer<Value>::Reader reader;
  std::function<void(ChangeHandlers& handlers, const kube::Cached<Value>* before,
                     const kube::Cached<Value>* after)>
      handler;
  Duration watch_timeout = Duration::zero();  // as in kube::WatchOptions
  typename kube::Informer<Value>::Updater updater = nullptr;
};

// A watch of nodes that do not change ends within a minute, so that it shows that it works.
inline constexpr Duration kNodesWatch = std::chrono::minutes(1);
static_assert(kNodesWatch < kNodesSilence, "a watch in order would count as stalled");

// The table: calls visit(FollowedKind<Value>) for each kind that is followed with these settings.
// Stores says what a kind is for and when it is not followed.
template <typename Visit>
void ForEachFollowedKind(const Settings& settings, Visit visit) {
  visit(FollowedKind<ObservedJob>{.kind = kTrainingJobKind,
                                  .store = &Stores::jobs,
                                  .label = "",
                                  .fields = {},
                                  .reader = ObserveJob,
                                  .handler = &ChangeHandlers::JobChanged,
                                  .updater = ObserveJobAgain});
  visit(FollowedKind<std::optional<ObservedPod>>{.kind = kube::kPodKind,
                                                 .store = &Stores::pods,
                                                 .label = api::kLabelJobUid,
                                                 .fields = PodFields(),
                                                 .reader = ObservePod,
                                                 .handler = &ChangeHandlers::PodChanged});
  visit(FollowedKind<std::monostate>{
      .kind = kube::kServiceKind,
      .store = &Stores::services,
      .label = api::kLabelJobUid,
      .fields = kube::IdentityFields(),
      .reader = [](const auto& /*service*/) { return std::monostate(); },
      .handler = &ChangeHandlers::ChildChanged});
  if (GangSchedulerOf(settings) != GangScheduler::kNone) {
    visit(FollowedKind<ObservedPodGroup>{.kind = PodGroupKind(settings),
                                         .store = &Stores::pod_groups,
                                         .label = api::kLabelJobUid,
                                         .fields = PodGroupFields(),
                                         .reader = ReadPodGroup,
                                         .handler = &ChangeHandlers::ChildChanged});
  }
  if (settings.kueue) {
    visit(FollowedKind<ObservedWorkload>{.kind = kWorkloadKind,
                                         .store = &Stores::workloads,
                                         .label = api::kLabelJobUid,
                                         .fields = WorkloadFields(),
                                         .reader = ReadWorkload,
                                         .handler = &ChangeHandlers::ChildChanged});
  }
  if (settings.watch_nodes) {
    visit(FollowedKind<bool>{.kind = kNodeKind,
                             .store = &Stores::nodes,
                             .label = "",
                             .fields = NodeFields(),
                             .reader = IsReadyNode,
                             .handler = &ChangeHandlers::NodeChanged,
                             .watch_timeout = kNodesWatch});
  }
}

// Sets the store of a row in `stores`.
template <typename Value>
void AddStore(const FollowedKind<Value>& followed, const kube::Store<Value>& store,
              Stores& stores) {
  stores.*followed.store = &store;
  if (followed.label == api::kLabelJobUid) stores.children.emplace_back(followed.kind, &store);
}

}  // namespace lockstep::controller
