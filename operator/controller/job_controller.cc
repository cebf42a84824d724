#include "operator/controller/job_controller.h"

#include <algorithm>
#include <utility>

#include "api/v1/names.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/observe_job.h"
#include "operator/controller/state/kinds.h"

namespace lockstep::controller {
namespace {

constexpr char kReporter[] = "training.lockstep.dev/operator";

// `label` selects the objects that have this label; empty: all objects.
kube::ReflectorOptions Following(const JobControllerOptions& options, const char* label,
                                 std::optional<kube::FieldMask> keep = {}) {
  return {.namespace_name = "",
          .label_selector = label,
          .keep = std::move(keep),
          .backoff = options.watch_retry};
}

std::vector<std::string> Served(const JobControllerOptions& options) {
  return options.namespaces.empty() ? std::vector<std::string>{""} : options.namespaces;
}

// A watch of nodes that do not change ends within a minute, so that it shows that it works.
constexpr Duration kNodesWatch = std::chrono::minutes(1);
static_assert(kNodesWatch < kNodesSilence, "a watch in order would count as stalled");

// Leaves at least one worker to other namespaces, however slow one namespace's jobs are. With a
// single worker there is none to leave.
int MostOfANamespace(int workers) {
  return std::max(1, workers - std::max(1, workers / 8));
}

JobControllerOptions Agreeing(JobControllerOptions options) {
  options.settings.job_tokens = options.tokens != nullptr;
  return options;
}

}  // namespace

JobController::JobController(kube::Client& client, const Addresses& addresses,
                             ProgressSource& progress, const Clock& clock,
                             JobControllerOptions options)
    : options_(Agreeing(std::move(options))),
      queue_(clock, options_.retry, 1, MostOfANamespace(options_.workers)),
      jobs_(client, kTrainingJobKind, Served(options_), Following(options_, ""), ObserveJob),
      pods_(client, kube::kPodKind, Served(options_),
            Following(options_, api::kLabelJobUid, PodFields()), ObservePod),
      services_(client, kube::kServiceKind, Served(options_),
                Following(options_, api::kLabelJobUid, kube::IdentityFields()),
                [](const kube::Object& /*service*/) { return std::monostate(); }),
      events_(client, clock, kReporter, options_.instance),
      reconciler_({client, addresses, progress, events_, clock, options_.tokens, options_.reports},
                  {jobs_.store(), pods_.store(), services_.store(), FollowPodGroups(client),
                   FollowWorkloads(client), FollowNodes(client), &node_health_,
                   [this] { return nodes_->IsCurrent(kNodesSilence); }},
                  options_.settings),
      controller_("trainingjob", queue_,
                  [this](const kube::Key& key) { return reconciler_.Reconcile(key); }) {
  queue_.SetObserver(options_.queue_observer);
  for (const std::string& name : Served(options_)) open_[name] = false;
  SetHandlers();
}

JobController::~JobController() {
  Stop();
}

const kube::Store<ObservedPodGroup>* JobController::FollowPodGroups(kube::Client& client) {
  if (GangSchedulerOf(options_.settings) == GangScheduler::kNone) return nullptr;
  return &pod_groups_
              .emplace(client, PodGroupKind(options_.settings), Served(options_),
                       Following(options_, api::kLabelJobUid, PodGroupFields()), ReadPodGroup)
              .store();
}

const kube::Store<ObservedWorkload>* JobController::FollowWorkloads(kube::Client& client) {
  if (!options_.settings.kueue) return nullptr;
  return &workloads_
              .emplace(client, kWorkloadKind, Served(options_),
                       Following(options_, api::kLabelJobUid, WorkloadFields()), ReadWorkload)
              .store();
}

const kube::Store<bool>* JobController::FollowNodes(kube::Client& client) {
  if (!options_.settings.watch_nodes) return nullptr;
  kube::ReflectorOptions following = Following(options_, "", NodeFields());
  following.watch_timeout = kNodesWatch;
  return &nodes_.emplace(client, kNodeKind, std::move(following), IsReadyNode).store();
}

std::vector<kube::AnyInformer*> JobController::Informers() {
  std::vector<kube::AnyInformer*> informers = {&jobs_, &pods_, &services_};
  if (pod_groups_) informers.push_back(&*pod_groups_);
  if (workloads_) informers.push_back(&*workloads_);
  if (nodes_) informers.push_back(&*nodes_);
  return informers;
}

std::vector<const kube::AnyInformer*> JobController::Informers() const {
  std::vector<const kube::AnyInformer*> informers = {&jobs_, &pods_, &services_};
  if (pod_groups_) informers.push_back(&*pod_groups_);
  if (workloads_) informers.push_back(&*workloads_);
  if (nodes_) informers.push_back(&*nodes_);
  return informers;
}

void JobController::SetHandlers() {
  using Job = kube::Cached<ObservedJob>;
  for (kube::AnyInformer* informer : Informers()) {
    informer->SetSyncHandler([this] { OpenNamespaces(); });
  }
  jobs_.SetHandler([this](const Job* before, const Job* after) {
    if (after != nullptr && options_.on_job_change) {
      options_.on_job_change(before == nullptr ? nullptr : &before->value.job, after->value.job);
    }
    Enqueue((after == nullptr ? before : after)->key);
  });
  const auto add_owner = [this](const kube::Identity& child) {
    // Otherwise somebody else has set our label on it.
    if (child.owner_kind != kube::OwnerKind(kTrainingJobKind)) return;
    Enqueue({child.key.namespace_name, child.owner_name});
  };
  const auto child_changed = [add_owner](const kube::Identity* before,
                                         const kube::Identity* after) {
    const bool is_taken_away =
        before != nullptr && after != nullptr && before->owner_uid != after->owner_uid;
    if (after == nullptr || is_taken_away) add_owner(*before);
    if (after != nullptr) add_owner(*after);
  };
  pods_.SetHandler(child_changed);
  services_.SetHandler(child_changed);
  if (pod_groups_) pod_groups_->SetHandler(child_changed);
  if (workloads_) workloads_->SetHandler(child_changed);
  if (!nodes_) return;
  nodes_->SetHandler([this](const kube::Cached<bool>* before, const kube::Cached<bool>* after) {
    const bool was = before != nullptr && before->value, is = after != nullptr && after->value;
    const std::string& changed = (after == nullptr ? before : after)->key.name;
    if (node_health_.Note(before, after)) {  // what holds for one unready node holds for all
      AddJobsOn([&](const std::string& node) { return node == changed || !IsReady(node); });
    } else if (was != is) {
      AddJobsOn([&](const std::string& node) { return node == changed; });
    }
  });
}

bool JobController::IsReady(const std::string& node) const {
  const auto known = nodes_->store().Get({"", node});
  return known && known->value;
}

// Scans all pods: nodes change rarely, and an index by node would cost memory for every pod.
void JobController::AddJobsOn(const std::function<bool(const std::string& node)>& affects) {
  for (const auto& pod : pods_.store().List()) {
    if (!pod->value || pod->value->node.empty() || !affects(pod->value->node)) continue;
    if (pod->owner_kind != kube::OwnerKind(kTrainingJobKind)) continue;
    Enqueue({pod->key.namespace_name, pod->owner_name});
  }
}

bool JobController::IsOpen(const std::string& namespace_name) const {
  auto it = open_.find(namespace_name);
  if (it == open_.end()) it = open_.find("");
  return it != open_.end() && it->second && !is_stopping_;
}

// Drops changes of a namespace that is not open: OpenNamespaces reads them from the store later.
void JobController::Enqueue(const kube::Key& key) {
  if (IsOpen(key.namespace_name)) queue_.Add(key);
}

void JobController::Look(const kube::Key& key, bool at_once) {
  if (!IsOpen(key.namespace_name)) return;
  queue_.AddWithin(key, at_once ? Duration::zero() : options_.settings.status_interval);
}

void JobController::OpenNamespaces() {
  const std::lock_guard lock(opening_);
  const auto informers = Informers();
  for (auto& [name, open] : open_) {
    const auto has_synced = [&name](const kube::AnyInformer* informer) {
      return informer->HasSynced(name);
    };
    if (open || !std::ranges::all_of(informers, has_synced)) continue;
    open = true;
    for (const auto& job : jobs_.store().List(name)) queue_.Add(job->key);
  }
}

void JobController::Start() {
  controller_.Start(options_.workers);
  for (kube::AnyInformer* informer : Informers()) informer->Start();
}

bool JobController::HasSynced() const {
  const std::lock_guard lock(opening_);
  return std::ranges::all_of(open_, [](const auto& entry) { return entry.second.load(); });
}

JobControllerStats JobController::Stats() const {
  JobControllerStats stats;
  for (const kube::AnyInformer* informer : Informers()) {
    stats.caches.push_back(
        {informer->kind(), informer->HasSynced(), informer->size(), informer->Feeds()});
  }
  stats.queue = queue_.Stats();
  stats.failures = controller_.failures();  // read first, so that it never exceeds the reconciles
  stats.reconciles = controller_.reconciles();
  stats.stale_reads = reconciler_.stale_reads();
  return stats;
}

void JobController::Stop() {
  is_stopping_ = true;
  for (kube::AnyInformer* informer : Informers()) informer->RequestStop();
  for (kube::AnyInformer* informer : Informers()) informer->Stop();
  controller_.Stop();
}

}  // namespace lockstep::controller
