// Runs a job on this machine: the real reconciler on an in-memory API server, pods as processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "operator/cli/files/job_file.h"
#include "operator/cli/local/inbox.h"
#include "operator/cli/local/local_reports.h"
#include "operator/controller/job_controller.h"
#include "operator/local/process_kubelet.h"
#include "operator/progress/progress_poller.h"

namespace lockstep::cli {

struct LocalRunOptions {
  std::string work_dir;                        // absolute
  std::map<std::string, std::string> volumes;  // --volume; absolute paths
  std::string mark;                            // prefix of its processes' marks; see KubeletOptions
  std::string links;                           // the folder of its links: see LinksFolder
};

class LocalRun {
 public:
  // Starts the job. InvalidArgument if a pod of the job cannot run on one machine, or needs an
  // object that the file does not have, such as a Secret; nothing has been started then. `inbox`
  // and `clock` must outlive the run.
  static absl::StatusOr<std::unique_ptr<LocalRun>> Start(const JobFile& file,
                                                         const LocalRunOptions& options,
                                                         Inbox& inbox, const Clock& clock);
  ~LocalRun();  // kills the remaining processes
  LocalRun(const LocalRun&) = delete;
  LocalRun& operator=(const LocalRun&) = delete;

  // Stops reconciling, then terminates every pod within its grace period. Posts PodsStopped when
  // all have ended.
  void Stop();
  // Kills all pods without a grace period.
  void Kill();

  // Returns where the replicas of the bundled trainer that train serve their metrics: "worker-0" at
  // "127.77.0.1:8080".
  std::map<std::string, std::string> MetricsAddresses(const api::TrainingJob& job) const;
  // Maps a path in the leading pod's main container to this machine.
  std::string OnThisMachine(const std::string& container_path) const;
  // Returns what the leading pod's trainer reports about its group; nullopt if it does not answer.
  std::optional<progress::GroupState> State(const std::string& job_uid) {
    return poller_.State(job_uid);
  }
  // Returns {"job", "pods", "events"} as a cluster would show them, without what may be secret: the
  // job has no annotations, and its containers have no commands, arguments, variables, hooks and
  // probes; a pod's spec has only the names of its node and containers. What cannot be read is null
  // (the job) or an empty list.
  kube::Object Objects(const kube::Key& job);
  // Returns the progress in the leading pod's termination message; nullopt if it is running or has
  // left none.
  std::optional<api::Progress> TerminationProgress();
  // Returns what the programs of the job have reported last, also after Stop; nullopt: nothing.
  std::optional<api::Progress> LastReport(const std::string& job_uid);

 private:
  // Listens to no reports if `reports` is null.
  LocalRun(std::unique_ptr<local::LocalAddresses> addresses, std::unique_ptr<LocalReports> reports,
           Inbox& inbox, const Clock& clock, local::KubeletOptions kubelet,
           const std::string& namespace_name);
  absl::Status CreateCompanions(const JobFile& file);
  absl::Status CreateJob(api::TrainingJob job);
  void Watch(const kube::Kind& kind, const std::string& namespace_name);

  Inbox& inbox_;
  std::unique_ptr<local::LocalAddresses> addresses_;
  local::MemoryClient client_;
  controller::JobTokens tokens_;  // the key is made for this run only
  progress::ProgressPoller poller_;
  std::unique_ptr<LocalReports> reports_;  // may be null
  controller::JobController controller_;
  local::ProcessKubelet kubelet_;
  local::PathMap leading_paths_;
  std::optional<kube::Key> leading_;  // the leading pod
  std::vector<std::jthread> watches_;
  std::jthread joiner_;
};

}  // namespace lockstep::cli
