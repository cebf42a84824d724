// A kubelet that runs the pods of an API server as processes of this machine.
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
#include "operator/local/gpu_shares.h"
#include "operator/local/machine_use.h"
#include "operator/local/memory_client.h"
#include "operator/local/plain_links.h"
#include "operator/local/pod_runner.h"
#include "operator/local/volumes.h"

namespace lockstep::local {

struct KubeletOptions {
  std::string node_name = "local";  // runs the pods that are bound to this node
  std::string mark;                 // prefix of its processes' marks; empty or ending with "/"
  VolumeOptions volumes;            // logs go to <work-dir>/logs
  HostFacts host;
  std::vector<int> cpus;          // cores to share out; empty: processes are not pinned
  std::vector<std::string> gpus;  // GPUs to share out: see PermittedGpus
  // Makes plain names for volumes where those are needed; null: they have none.
  std::shared_ptr<PlainLinks> links = nullptr;
  // By which runs at the same time use different cores and GPUs; null: there is no other run.
  std::shared_ptr<MachineUse> use = nullptr;
  // Those without a limit share the cores evenly; see RunsOnAllCores for who does not count.
  int expected_pods = 1;
  PodRunner::Backoff backoff;
};

// Return this machine's facts (environment, this program's folder, current folder) and the cores
// that this process may use.
HostFacts ThisHost();
std::vector<int> PermittedCpus();

class ProcessKubelet {
 public:
  // All references must outlive this object. After Start(), one thread owns all processes.
  ProcessKubelet(MemoryClient& client, const LocalAddresses& addresses, const Clock& clock,
                 KubeletOptions options);
  ~ProcessKubelet();  // calls KillAll() and waits
  ProcessKubelet(const ProcessKubelet&) = delete;
  ProcessKubelet& operator=(const ProcessKubelet&) = delete;

  void Start();
  // Terminates every pod within its grace period and starts no other. Returns at once. Idempotent.
  void Shutdown();
  // Like Shutdown, without a grace period.
  void KillAll();
  // Blocks until Shutdown or KillAll has ended all processes.
  void Join();

 private:
  struct Pod {
    kube::Key key;
    std::unique_ptr<PodRunner> runner;
    std::string reported;   // the last status written to the API server
    bool deleting = false;  // the API server waits for our confirmation
    bool gone = false;      // the API server no longer has the pod
  };

  void WatchLoop(std::stop_token stop);
  void Loop();
  void OnPod(const kube::WatchEvent& event);
  void OnDeleted(const std::string& uid);
  void AddPod(const kube::Object& pod);
  PodPlan MakePlan(const kube::Object& pod);
  void AssignShares(const kube::Object& pod, PodPlan& plan);
  std::vector<int> CpusOf(const kube::Object& pod, const kube::Object& container);
  void SetGpus(const kube::Object& pod, int wanted, const std::vector<std::string>& gpus,
               ProcessSpec& process);
  void Settle();  // reports, confirms deletions, forgets deleted pods
  void Report(const std::string& uid, Pod& pod);
  std::optional<SteadyTime> NextDeadline() const;

  MemoryClient& client_;
  const LocalAddresses& addresses_;
  const Clock& clock_;
  const KubeletOptions options_;
  SystemProcesses processes_;  // used by the thread only, like the next five
  CpuShares cpus_;
  GpuShares gpus_;
  bool has_said_that_gpus_lack_ = false;
  std::map<std::string, Pod> pods_;  // by uid
  bool stopping_ = false;
  std::mutex mutex_;
  std::vector<std::function<void()>> mailbox_;  // guarded by mutex_: actions for the thread
  void Post(std::function<void()> action);
  std::jthread watch_;
  std::thread thread_;
};

}  // namespace lockstep::local
