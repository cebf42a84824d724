#include "operator/controller/job_controller.h"

#include <algorithm>
#include <utility>

#include "operator/controller/pod_changes.h"
#include "operator/controller/state/job_facts.h"
#include "operator/controller/state/kinds.h"
#include "operator/kube/denial.h"

namespace lockstep::controller {
namespace {

constexpr char kReporter[] = "training.lockstep.dev/operator";

std::vector<std::string> Served(const JobControllerOptions& options) {
  return options.namespaces.empty() ? std::vector<std::string>{""} : options.namespaces;
}

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
      stores_(Follow(client)),
      events_(client, clock, kReporter, options_.instance),
      reconciler_({client, addresses, progress, events_, clock, options_.tokens, options_.reports},
                  stores_, options_.settings),
      controller_("trainingjob", queue_,
                  [this](const kube::Key& key) { return reconciler_.Reconcile(key); }) {
  queue_.SetObserver(options_.queue_observer);
  for (const std::string& name : Served(options_)) open_[name] = false;
}

JobController::~JobController() {
  Stop();
}

Stores JobController::Follow(kube::Client& client) {
  Stores stores{.node_health = &node_health_,
                .nodes_are_current = [this] { return NodesAreCurrent(); }};
  ForEachFollowedKind(options_.settings, [&]<typename Value>(const FollowedKind<Value>& followed) {
    const kube::ReflectorOptions reflector{.namespace_name = "",
                                           .label_selector = std::string(followed.label),
                                           .keep = followed.fields,
                                           .watch_timeout = followed.watch_timeout,
                                           .backoff = options_.watch_retry};
    auto informer = std::make_unique<kube::Informer<Value>>(
        client, followed.kind,
        followed.kind.namespaced ? Served(options_) : std::vector<std::string>{""}, reflector,
        followed.reader);
    informer->SetUpdater(followed.updater);
    informer->SetHandler([this, handler = followed.handler](const auto* before, const auto* after) {
      handler(*this, before, after);
    });
    informer->SetSyncHandler([this] { OpenNamespaces(); });
    AddStore(followed, informer->store(), stores);
    informers_.push_back(std::move(informer));
  });
  return stores;
}

void JobController::JobChanged(const kube::Cached<ObservedJob>* before,
                               const kube::Cached<ObservedJob>* after) {
  if (after != nullptr && options_.on_job_change && !IsForeign(after->value.job)) {
    options_.on_job_change(before == nullptr ? nullptr : &before->value.job, after->value.job);
  }
  Enqueue((after == nullptr ? before : after)->key);
}

void JobController::EnqueueOwner(const kube::Identity& child, Duration hold) {
  // Otherwise somebody else has set our label on it.
  if (child.owner_kind != kube::OwnerKind(kTrainingJobKind)) return;
  Enqueue({child.key.namespace_name, child.owner_name}, hold);
}

void JobController::ReportChange(const kube::Identity* before, const kube::Identity* after,
                                 Duration hold) {
  const bool is_taken_away =
      before != nullptr && after != nullptr && before->owner_uid != after->owner_uid;
  if (after == nullptr || is_taken_away) EnqueueOwner(*before);
  if (after != nullptr) EnqueueOwner(*after, hold);
}

void JobController::ChildChanged(const kube::Identity* before, const kube::Identity* after) {
  ReportChange(before, after, before == nullptr ? options_.settings.change_hold : Duration::zero());
}

void JobController::PodChanged(const kube::Cached<std::optional<ObservedPod>>* before,
                               const kube::Cached<std::optional<ObservedPod>>* after) {
  const Urgency urgency = UrgencyOf(before, after);
  if (urgency == Urgency::kNone) return;
  const bool can_wait = urgency == Urgency::kSoon;
  ReportChange(before, after, can_wait ? options_.settings.change_hold : Duration::zero());
}

void JobController::NodeChanged(const kube::Cached<bool>* before, const kube::Cached<bool>* after) {
  const bool was = before != nullptr && before->value, is = after != nullptr && after->value;
  const std::string& changed = (after == nullptr ? before : after)->key.name;
  if (node_health_.UpdateOutage(before, after)) {  // what holds for one unready node holds for all
    AddJobsOn([&](const std::string& node) { return node == changed || !IsReady(node); });
  } else if (was != is) {
    AddJobsOn([&](const std::string& node) { return node == changed; });
  }
}

bool JobController::NodesAreCurrent() const {
  const auto is_current = [](const auto& informer) {
    return informer->kind() != kNodeKind || informer->IsCurrent(kNodesSilence);
  };
  return std::ranges::all_of(informers_, is_current);
}

bool JobController::IsReady(const std::string& node) const {
  const auto known = stores_.nodes->Get({"", node});
  return known && known->value;
}

// Scans all pods: nodes change rarely, and an index by node would cost memory for every pod.
void JobController::AddJobsOn(const std::function<bool(const std::string& node)>& affects) {
  const auto is_open = [](const auto& entry) { return entry.second.load(); };
  if (std::ranges::none_of(open_, is_open)) return;  // at the start each node is news
  for (const auto& pod : stores_.pods->List()) {
    if (!pod->value || pod->value->node.empty() || !affects(pod->value->node)) continue;
    EnqueueOwner(*pod);
  }
}

bool JobController::IsOpen(const std::string& namespace_name) const {
  auto it = open_.find(namespace_name);
  if (it == open_.end()) it = open_.find("");
  return it != open_.end() && it->second && !is_stopping_;
}

// Drops changes of a namespace that is not open: OpenNamespaces reads them from the store later.
void JobController::Enqueue(const kube::Key& key, Duration hold) {
  if (!IsOpen(key.namespace_name)) return;
  hold > Duration::zero() ? queue_.AddSoon(key, hold) : queue_.Add(key);
}

void JobController::Look(const kube::Key& key, bool at_once) {
  if (!IsOpen(key.namespace_name)) return;
  queue_.AddWithin(key, at_once ? Duration::zero() : options_.settings.status_interval);
}

void JobController::OpenNamespaces() {
  const std::lock_guard lock(opening_);
  for (auto& [name, open] : open_) {
    const auto has_synced = [&name](const auto& informer) { return informer->HasSynced(name); };
    if (open || !std::ranges::all_of(informers_, has_synced)) continue;
    open = true;
    for (const auto& job : stores_.jobs->List(name)) queue_.Add(job->key);
  }
}

void JobController::Start() {
  controller_.Start(options_.workers);
  for (const auto& informer : informers_) informer->Start();
}

bool JobController::HasSynced() const {
  const std::lock_guard lock(opening_);
  return std::ranges::all_of(open_, [](const auto& entry) { return entry.second.load(); });
}

JobControllerStats JobController::Stats() const {
  JobControllerStats stats;
  for (const auto& informer : informers_) {
    std::vector<kube::FeedState> feeds = informer->Feeds();
    const bool synced = std::ranges::all_of(feeds, [](const kube::FeedState& feed) {
      return feed.synced && !kube::IsDenial(feed.last_error);
    });
    stats.caches.push_back({informer->kind(), synced, informer->size(), std::move(feeds)});
  }
  stats.queue = queue_.Stats();
  stats.successes = controller_.successes();
  stats.failures = controller_.failures();
  stats.stale_reads = reconciler_.stale_reads();
  stats.grown = reconciler_.grown();
  stats.shrunk = reconciler_.shrunk();
  return stats;
}

void JobController::Stop() {
  is_stopping_ = true;
  for (const auto& informer : informers_) informer->RequestStop();
  for (const auto& informer : informers_) informer->Stop();
  controller_.Stop();
}

}  // namespace lockstep::controller
