// An API server, caches that lag as far as a test wants, a kubelet moved by hand, and an operator
// that can be killed and started again.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/v1/names.h"
#include "base/rfc3339.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/children/kueue.h"
#include "operator/controller/followed_kinds.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/times.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"

namespace lockstep::testing {

class FakeProgress final : public controller::ProgressSource {
 public:
  std::optional<api::Progress> Latest(const controller::ProgressTarget& target) override {
    const std::lock_guard lock(mutex_);
    asked = target;
    paused.clear();
    return answer;
  }
  std::optional<api::Progress> Pause(const std::string& job_uid) override {
    const std::lock_guard lock(mutex_);
    paused = job_uid;
    return answer;
  }
  controller::GroupReport Group(const std::string& /*job_uid*/) override { return group; }
  bool TellsWorkers() const override { return tells; }
  void TellWorkers(const std::string& /*job_uid*/, int workers) override { told = workers; }
  void Forget(const std::string& job_uid) override {
    const std::lock_guard lock(mutex_);
    forgotten = job_uid;
  }

  std::optional<api::Progress> answer;
  controller::GroupReport group;
  controller::ProgressTarget asked;
  std::string paused;  // empty while it asks
  std::string forgotten;
  bool tells = false;  // the leading pod of its group's size, which is `told`
  int told = 0;

 private:
  std::mutex mutex_;  // a JobController reconciles on several threads
};

// Where a World's operator has the key of jobs' tokens.
inline const kube::Key kOperatorKey{"lockstep-system", "operator-key"};

class World {
 public:
  explicit World(api::TrainingJob job, controller::Settings settings = {.parallel_calls = 1})
      : key{job.metadata.namespace_name, job.metadata.name}, settings_(std::move(settings)) {
    EXPECT_TRUE(client.Create(controller::kTrainingJobKind, api::TrainingJobToJson(job)).ok());
    RestartOperator();
  }

  // Restarts the operator with other settings: its memory is empty, and its caches come from a new
  // list.
  void RestartOperator(controller::Settings settings) {
    settings_ = std::move(settings);
    RestartOperator();
  }
  void RestartOperator() {
    reconciler.reset();
    caches_ = std::make_unique<Caches>(settings_, nodes_are_current);
    for (auto& [plural, seen] : seen_) seen = 0;
    SyncAll();
    events_ = std::make_unique<kube::EventRecorder>(client, clock, "test/operator", "pod");
    tokens_.emplace(client, clock, kOperatorKey);
    reconciler = std::make_unique<controller::Reconciler>(
        controller::Collaborators{client, addresses_, progress, *events_, clock, &*tokens_,
                                  reports ? &*reports : nullptr},
        caches_->stores, settings_);
  }

  // Lets one kind's cache see up to `count` more changes.
  void Sync(const kube::Kind& kind, std::size_t count) {
    std::uint64_t& seen = seen_[kind.plural];
    for (const kube::WatchEvent& event : client.JournalSince(seen)) {
      if (!IsOf(kind, event.object)) continue;
      if (count-- == 0) return;
      seen = VersionOf(event.object);
      for (const auto& cache : caches_->all) {
        if (cache.kind == kind) cache.see(event);
      }
    }
  }
  void SyncAll() {
    for (const auto& cache : caches_->all) Sync(cache.kind, 1'000'000);
  }

  absl::StatusOr<std::optional<Duration>> Reconcile() { return reconciler->Reconcile(key); }

  // Syncs and reconciles until nothing is written any more. Returns the last requeue.
  std::optional<Duration> Settle() {
    for (int i = 0; i < 100; ++i) {
      SyncAll();
      const std::size_t before = client.writes().size();
      const auto result = Reconcile();
      EXPECT_TRUE(result.ok()) << result.status();
      if (client.writes().size() == before && result.ok()) return *result;
    }
    ADD_FAILURE() << "the operator does not come to rest";
    return std::nullopt;
  }

  // What a kubelet reports; `exit_code` with phase Succeeded or Failed.
  void SetPod(const std::string& name, const std::string& phase, int exit_code = 0) {
    client.Modify(kube::kPodKind, {key.namespace_name, name}, [&](kube::Object& pod) {
      kube::Object& status = pod["status"];
      const bool running = phase == "Running";
      status = {{"phase", phase}, {"podIP", "10.0.0.1"}};
      status["conditions"] = {{{"type", "Ready"}, {"status", running ? "True" : "False"}}};
      if (running) {
        status["containerStatuses"] = {
            {{"name", pod.at("spec").at("containers").at(0).at("name")},
             {"state",
              {{"running",
                {{"startedAt", FormatRfc3339(controller::WholeSeconds(clock.Now()))}}}}}}};
        return;
      }
      status["containerStatuses"] = {
          {{"name", pod.at("spec").at("containers").at(0).at("name")},
           {"state", {{"terminated", {{"exitCode", exit_code}, {"reason", "Error"}}}}}}};
    });
  }

  void SetNode(const std::string& name, const char* ready) {
    if (!client.Get(controller::kNodeKind, {"", name}).ok()) {
      client.Add(controller::kNodeKind, {{"metadata", {{"name", name}}}});
    }
    client.Modify(controller::kNodeKind, {"", name}, [ready](kube::Object& node) {
      node["status"]["conditions"] = {{{"type", "Ready"}, {"status", ready}}};
    });
  }

  // As its user does.
  void SetSuspend(bool suspend) {
    client.Modify(controller::kTrainingJobKind, key,
                  [suspend](kube::Object& job) { job["spec"]["suspend"] = suspend; });
  }

  kube::EventRecorder& events() { return *events_; }
  controller::JobTokens& tokens() { return *tokens_; }
  std::vector<kube::Object> Pods() { return client.Objects(kube::kPodKind); }
  // As the operator's cache holds it.
  const controller::ObservedJob& HeldJob() const { return caches_->stores.jobs->Get(key)->value; }
  std::optional<api::TrainingJob> Job() {
    const auto object = client.Get(controller::kTrainingJobKind, key);
    if (!object.ok()) return std::nullopt;
    return *api::TrainingJobFromServer(*object);
  }
  // Each as often as it was recorded.
  std::vector<std::string> EventReasons() {
    std::vector<std::string> reasons;
    for (const kube::Object& event : client.Objects(kube::kEventKind)) {
      const auto series = event.find("series");
      const int count = series == event.end() ? 1 : series->at("count").get<int>();
      reasons.insert(reasons.end(), static_cast<std::size_t>(count), event.at("reason"));
    }
    std::ranges::sort(reasons);
    return reasons;
  }

  const kube::Key key;
  FakeClock clock;
  HookedClient client{clock};
  FakeProgress progress;
  std::optional<controller::ProgressReports> reports;  // takes effect when the operator restarts
  bool nodes_are_current = true;
  std::unique_ptr<controller::Reconciler> reconciler;

 private:
  // Those that a JobController with these settings has.
  struct Caches final : controller::ChangeHandlers {
    struct Cache {
      kube::Kind kind;
      std::function<void(const kube::WatchEvent& event)> see;
    };

    Caches(const controller::Settings& settings, const bool& nodes_are_current) {
      stores.node_health = &node_health;
      stores.nodes_are_current = [&nodes_are_current] { return nodes_are_current; };
      controller::ForEachFollowedKind(
          settings, [&]<typename Value>(const controller::FollowedKind<Value>& followed) {
            const auto store = std::make_shared<kube::Store<Value>>();
            controller::AddStore(followed, *store, stores);
            all.push_back({followed.kind, [this, followed, store](const auto& event) {
                             if (!IsSelected(followed.label, event.object)) return;
                             const kube::Key changed = kube::KeyOf(event.object);
                             const auto before = store->Get(changed);
                             See(*store, event, [&](const kube::Object& object) {
                               return followed.updater && before
                                          ? followed.updater(object, before->value)
                                          : followed.reader(object);
                             });
                             followed.handler(*this, before.get(), store->Get(changed).get());
                           }});
          });
    }

    void JobChanged(const kube::Cached<controller::ObservedJob>* /*before*/,
                    const kube::Cached<controller::ObservedJob>* /*after*/) override {}
    void ChildChanged(const kube::Identity* /*before*/, const kube::Identity* /*after*/) override {}
    void PodChanged(
        const kube::Cached<std::optional<controller::ObservedPod>>* /*before*/,
        const kube::Cached<std::optional<controller::ObservedPod>>* /*after*/) override {}
    void NodeChanged(const kube::Cached<bool>* before, const kube::Cached<bool>* after) override {
      node_health.UpdateOutage(before, after);
    }

    static bool IsSelected(std::string_view label, const kube::Object& object) {
      return label.empty() || !kube::Label(object, std::string(label)).empty();
    }

    controller::NodeHealth node_health;
    controller::Stores stores;
    std::vector<Cache> all;
  };

  template <typename Value>
  static void See(kube::Store<Value>& store, const kube::WatchEvent& event, const auto& read) {
    const kube::Object& object = event.object;
    if (event.type == kube::WatchEvent::Type::kDeleted) {
      store.Remove(kube::KeyOf(object));
    } else {
      store.Put(
          std::make_shared<const kube::Cached<Value>>(kube::IdentityOf(object), read(object)));
    }
    // As of an operator that serves this namespace by name, which sees no version of all of them.
    store.SetResourceVersion(kube::Namespace(object), kube::ResourceVersion(object));
  }

  controller::Settings settings_;
  const controller::DnsAddresses addresses_;
  std::unique_ptr<Caches> caches_;
  std::unique_ptr<kube::EventRecorder> events_;
  std::optional<controller::JobTokens> tokens_;
  std::map<std::string, std::uint64_t> seen_;  // by plural
};

}  // namespace lockstep::testing
