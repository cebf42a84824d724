// Writes of one job that the caches have yet to show. Deciding before they do would create or
// delete the same pod twice.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/thread_pool.h"
#include "operator/controller/state/stores.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Not thread-safe. Losing it when the process ends is harmless: the next process fills its caches
// from scratch.
class Expectations {
 public:
  void Created(const std::string& uid, const kube::AnyStore& store, std::string version);
  void Updated(const kube::AnyStore& store, std::string version);
  void Deleted(const std::string& uid, const kube::Key& pod);
  void WroteJob(std::string version);
  // Records a write whose outcome is unknown.
  void MayHaveWritten(const kube::Kind& kind, const kube::Key& key);

  // Asks the server for the outcome of each such write, `at_once` at a time. Writes that it does
  // not answer for stay unresolved, and an error is returned.
  absl::Status Resolve(kube::Client& client, const Stores& stores, const kube::Owner& owner,
                       ThreadPool& pool, std::size_t at_once);
  // Returns true if the caches, including `job`, reflect every recorded write. Forgets the writes
  // that they reflect.
  bool AreMet(const kube::Identity& job, const kube::Owner& owner, const Stores& stores);

 private:
  // A store reflects the write once it has the object or any later version, since the object may be
  // deleted again.
  struct Write {
    const kube::AnyStore* store = nullptr;
    std::string version;
  };
  std::map<std::string, Write> created_;      // by uid
  std::vector<Write> updated_;                // PodGroups and Workloads
  std::map<std::string, kube::Key> deleted_;  // pod uid -> key
  std::string job_version_;                   // of our last write to the job
  std::vector<std::pair<kube::Kind, kube::Key>> unresolved_;
};

}  // namespace lockstep::controller
