// Plays the kubelets of a cluster: pods start, become ready and end as a test's script says.
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
    kRuns,  // until something else happens to it
    kSucceeds,
    kFails,      // with exit code 1
    kRetryable,  // with exit code 137
    kEvicted,    // failed without an exit code, because the node is short of something
  };
  // Asked once for each pod, when it runs.
  using Script = std::function<Fate(const kube::Object& pod)>;
  // Called when a pod that is being deleted has ended; empty: its server asks no kubelet.
  using Confirm = std::function<void(const kube::Key& pod, const std::string& uid)>;

  // The client and what the functions use outlive it.
  FakeKubelet(kube::Client& client, std::string namespace_name, Script script,
              Confirm confirm = {});
  ~FakeKubelet();
  FakeKubelet(const FakeKubelet&) = delete;
  FakeKubelet& operator=(const FakeKubelet&) = delete;

  // Pods running that nobody has decided on end well from now on.
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
