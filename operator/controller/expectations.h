// What this process has written of one job and the caches have yet to show. Deciding before they do
// would create, or delete, the same pod twice.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "operator/controller/stores.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Not thread-safe. Lost when the process ends, without harm: caches are then filled from the start.
class Expectations {
 public:
  void Created(const std::string& uid, const kube::AnyStore& store, std::string version);
  void Updated(const kube::AnyStore& store, std::string version);
  void Deleted(const std::string& uid, const kube::Key& pod);
  void WroteJob(std::string version);
  // A write whose outcome is not known.
  void MayHaveWritten(const kube::Kind& kind, const kube::Key& key);

  // Asks the server for the outcome of each such write, `at_once` at a time. Those that it does not
  // tell stay, and the error is returned.
  absl::Status Resolve(kube::Client& client, const Stores& stores, const kube::Owner& owner,
                       ThreadPool& helpers, std::size_t at_once);
  // True if the caches, `job` among what they hold, show everything; forgets what they do.
  bool AreMet(const kube::Identity& job, const kube::Owner& owner, const Stores& stores);

 private:
  // The store shows it once it has the object, or a later version of anything: it may be gone
  // again.
  struct Write {
    const kube::AnyStore* store = nullptr;
    std::string version;
  };
  std::map<std::string, Write> created_;      // by uid
  std::vector<Write> updated_;                // PodGroups and Workloads
  std::map<std::string, kube::Key> deleted_;  // uid of a pod -> its key
  std::string job_version_;                   // of our last write of the job
  std::vector<std::pair<kube::Kind, kube::Key>> unresolved_;
};

}  // namespace lockstep::controller
