// Plays a cluster's kubelets: pods start, become ready and end as a test's script says.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "operator/kube/cache/informer.h"
#include "operator/kube/client.h"

namespace lockstep::testing {

class FakeKubelet {
 public:
  enum class Fate {
    kRuns,  // until something else ends it
    kSucceeds,
    kFails,      // with exit code 1
    kRetryable,  // with exit code 137
    kEvicted,    // fails without an exit code, because its node is short of a resource
  };
  // Called once per pod, when it runs.
  using Script = std::function<Fate(const kube::Object& pod)>;
  // Called when a pod that is being deleted has ended. Empty if the server needs no kubelet for
  // that.
  using Confirm = std::function<void(const kube::Key& pod, const std::string& uid)>;

  // The client, and what the functions use, must outlive it.
  FakeKubelet(kube::Client& client, std::string namespace_name, Script script,
              Confirm confirm = {});
  ~FakeKubelet();
  FakeKubelet(const FakeKubelet&) = delete;
  FakeKubelet& operator=(const FakeKubelet&) = delete;

  // From now on all running pods that the script leaves running succeed.
  void FinishAll();

 private:
  void See(const kube::Object& pod);
  void Run(const kube::Object& pod);
  void End(const kube::Object& pod, Fate fate);
  void SetStatus(const kube::Object& pod, const kube::Object& status);

  kube::Client& client_;
  const Script script_;
  const Confirm confirm_;
  std::mutex mutex_;
  std::set<std::string> asked_;  // uids; guarded by mutex_
  bool finish_all_ = false;      // guarded by mutex_
  kube::Informer<kube::Object> pods_;
};

}  // namespace lockstep::testing
