// A job on this machine: the real reconcile logic over an API server in memory, pods as processes.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "operator/cli/inbox.h"
#include "operator/cli/job_file.h"
#include "operator/controller/job_controller.h"
#include "operator/local/process_kubelet.h"
#include "operator/progress/progress_poller.h"

namespace lockstep::cli {

struct LocalRunOptions {
  std::string work_dir;                        // absolute
  std::map<std::string, std::string> volumes;  // --volume, absolute paths
  std::string mark;                            // of its processes: see KubeletOptions
};

class LocalRun {
 public:
  // InvalidArgument: a pod of the job cannot run on one machine. Nothing has been started then.
  // `inbox` and `clock` outlive the run.
  static absl::StatusOr<std::unique_ptr<LocalRun>> Start(const JobFile& file,
                                                         const LocalRunOptions& options,
                                                         Inbox& inbox, const Clock& clock);
  ~LocalRun();  // kills what is left
  LocalRun(const LocalRun&) = delete;
  LocalRun& operator=(const LocalRun&) = delete;

  // Ends the reconciles, then every pod in its grace period; PodsStopped comes when all are gone.
  void Stop();
  // No grace any more.
  void Kill();

  // Where a path of the leading pod's main container lies on this machine.
  std::string OnThisMachine(const std::string& container_path) const;
  // What the job's trainer says of its group; nothing while it cannot be asked.
  std::optional<progress::GroupState> State(const std::string& job_uid) {
    return poller_.State(job_uid);
  }
  // What the leading pod's trainer left as its last word; nothing while it runs, or if none.
  std::optional<api::Progress> LastWord();

 private:
  LocalRun(std::unique_ptr<local::LocalAddresses> addresses, Inbox& inbox, const Clock& clock,
           local::KubeletOptions kubelet, const std::string& namespace_name);
  absl::Status CreateObjects(const JobFile& file);
  void Watch(const kube::Kind& kind, const std::string& namespace_name);

  Inbox& inbox_;
  std::unique_ptr<local::LocalAddresses> addresses_;
  local::MemoryClient client_;
  controller::JobTokens tokens_;  // of a key that nobody else has, and that ends with the run
  progress::ProgressPoller poller_;
  controller::JobController controller_;
  local::ProcessKubelet kubelet_;
  local::PathMap leading_paths_;
  std::optional<kube::Key> leading_;  // the leading pod
  std::vector<std::jthread> watches_;
  std::jthread joiner_;
};

}  // namespace lockstep::cli
