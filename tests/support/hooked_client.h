// The API server of the operator's tests: a MemoryClient that records calls, fails them when a test
// says so, and lets a test play the other programs of a cluster. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "operator/kube/client.h"
#include "operator/local/memory_client.h"

namespace lockstep::testing {

// Returns true if the object is one of this kind.
bool IsOf(const kube::Kind& kind, const kube::Object& object);
// Returns the object's metadata.resourceVersion, which must be a number.
std::uint64_t VersionOf(const kube::Object& object);

class HookedClient final : public kube::Client {
 public:
  struct Call {
    std::string verb, kind, name;          // verb: get list watch create update update-status
                                           // delete force-delete
    std::string namespace_name = {};       // for list and watch
    int limit = 0;                         // for list
    const kube::Object* object = nullptr;  // what is to be written; only during a hook
    bool is_write() const { return verb != "get" && verb != "list" && verb != "watch"; }
  };
  // Fails a call with the status that it returns: before the call is executed, or (writes only)
  // after it was executed but before the answer. May use the client.
  using Hook = std::function<absl::Status(const Call&)>;

  // Without a clock, the time never changes.
  HookedClient();
  explicit HookedClient(const Clock& clock);

  void SetBefore(Hook hook);
  void SetAfter(Hook hook);
  std::vector<Call> writes() const;
  int Count(const std::string& verb, const std::string& kind) const;

  // What follows is neither recorded nor failed.
  std::vector<kube::Object> Objects(const kube::Kind& kind);
  // All changes after this version (0: all there were), in order, as watches report them.
  std::vector<kube::WatchEvent> JournalSince(std::uint64_t version);
  // Creates an object, with its status. Its apiVersion and kind may be missing.
  kube::Object Add(const kube::Kind& kind, kube::Object object);
  // Changes an object, which must exist, whatever its version.
  void Modify(const kube::Kind& kind, const kube::Key& key,
              const std::function<void(kube::Object&)>& change);
  // Removes an object at once, without waiting for a kubelet. No-op if there is none.
  void Remove(const kube::Kind& kind, const kube::Key& key);

  // Plays the scheduler: binds each new pod to the node that `node_of` returns. A pod on a node
  // stays, once it is deleted, until Remove; without a scheduler pods are deleted at once.
  void SetScheduler(std::function<std::string(const kube::Object& pod)> node_of);
  // Makes watches from earlier versions return OutOfRange, and ends running watches with it.
  void ForgetHistory();
  // Ends running watches with `status`.
  void EndWatches(absl::Status status);

  absl::StatusOr<kube::Object> Get(const kube::Kind& kind, const kube::Key& key) override;
  // Counts as a "get". Returns only the metadata.
  absl::StatusOr<kube::Object> GetMetadata(const kube::Kind& kind, const kube::Key& key) override;
  absl::StatusOr<kube::Page> List(const kube::Kind& kind,
                                  const kube::ListOptions& options) override;
  absl::Status Watch(const kube::Kind& kind, const kube::WatchOptions& options,
                     std::stop_token stop,
                     const std::function<void(kube::WatchEvent)>& on_event) override;
  absl::StatusOr<kube::Object> Create(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> Update(const kube::Kind& kind, const kube::Object& object) override;
  absl::StatusOr<kube::Object> UpdateStatus(const kube::Kind& kind,
                                            const kube::Object& object) override;
  absl::Status Delete(const kube::Kind& kind, const kube::Key& key,
                      const kube::Preconditions& expected) override;
  absl::Status ForceDelete(const kube::Kind& kind, const kube::Key& key,
                           const kube::Preconditions& expected) override;

 private:
  absl::Status Begin(Call call);
  absl::Status End(const Call& call) const;
  kube::Object Bound(const kube::Kind& kind, kube::Object object) const;
  kube::Page ListAll(const kube::Kind& kind);

  local::MemoryClient server_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Call> calls_;
  Hook before_, after_;
  std::function<std::string(const kube::Object&)> node_of_;
  std::uint64_t oldest_ = 0;  // the first version from which a watch may start
  std::stop_source watches_;  // ends the watches that run
  absl::Status watch_end_;
};

}  // namespace lockstep::testing
