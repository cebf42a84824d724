// Runs the pods of an API server as processes of this machine, and reports on them as a kubelet
// does.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "operator/local/addresses.h"
#include "operator/local/container_process.h"
#include "operator/local/cpu_shares.h"
#include "operator/local/memory_client.h"
#include "operator/local/pod_runner.h"
#include "operator/local/volumes.h"

namespace lockstep::local {

struct KubeletOptions {
  std::string node_name = "local";  // runs the pods that are bound to it
  std::string mark;       // of its processes: a prefix of theirs, empty or ending with "/"
  VolumeOptions volumes;  // and the work directory: logs go to <work-dir>/logs
  HostFacts host;
  std::vector<int> cpus;  // cores to share out; empty: processes are not pinned
  int expected_pods = 1;  // share the cores evenly if they name no limit
  PodRunner::Backoff backoff;
};

// This machine's environment, folder of this program, current folder and permitted cores.
HostFacts ThisHost();
std::vector<int> PermittedCpus();

// Why a pod cannot run here, before it is made: its volumes, mounts and CPU limits.
absl::Status CheckPod(const kube::Object& pod, const VolumeOptions& options);

class ProcessKubelet {
 public:
  // All outlive it. Start() begins; one thread then owns all processes.
  ProcessKubelet(MemoryClient& client, const LocalAddresses& addresses, const Clock& clock,
                 KubeletOptions options);
  ~ProcessKubelet();  // KillAll, then waits
  ProcessKubelet(const ProcessKubelet&) = delete;
  ProcessKubelet& operator=(const ProcessKubelet&) = delete;

  void Start();
  // Ends every pod in its grace period and starts no other. Returns at once; idempotent.
  void Shutdown();
  // The same without grace.
  void KillAll();
  // Waits until Shutdown or KillAll has left no process.
  void Join();

 private:
  struct Pod {
    kube::Key key;
    std::unique_ptr<PodRunner> runner;
    std::string reported;   // the status that the API server has
    bool deleting = false;  // the API server waits for us
    bool gone = false;      // it does not know the pod any more
  };

  void WatchLoop(std::stop_token stop);
  void Loop();
  void OnPod(const kube::WatchEvent& event);
  void OnDeleted(const std::string& uid);
  void AddPod(const kube::Object& pod);
  PodPlan MakePlan(const kube::Object& pod);
  std::vector<int> CpusOf(const kube::Object& pod, const kube::Object& container);
  void Settle();  // reports, confirms deletions and forgets pods that are gone
  void Report(const std::string& uid, Pod& pod);
  std::optional<SteadyTime> NextDeadline() const;

  MemoryClient& client_;
  const LocalAddresses& addresses_;
  const Clock& clock_;
  const KubeletOptions options_;
  SystemProcesses processes_;  // of the thread, like the three below
  CpuShares cpus_;
  std::map<std::string, Pod> pods_;  // by uid
  bool stopping_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> mailbox_;  // guarded by mutex_: what the thread is to do
  void Post(std::function<void()> action);
  std::jthread watch_;
  std::thread thread_;
};

}  // namespace lockstep::local
