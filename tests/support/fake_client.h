// An in-memory API server that keeps a journal, and fails when a test says so. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "operator/kube/client.h"

namespace lockstep::testing {

class FakeClient final : public kube::Client {
 public:
  struct Call {
    std::string verb, kind, name;     // verb: get list watch create update update-status
                                      // delete force-delete
    std::string namespace_name = {};  // for list and watch
    int limit = 0;                    // for list
    bool is_write() const { return verb != "get" && verb != "list" && verb != "watch"; }
    bool operator==(const Call&) const = default;
  };
  struct Change {
    std::uint64_t version = 0;
    kube::Kind kind;
    kube::WatchEvent event;
  };
  // Fails a call with the status that it returns: before the call is executed, or (writes only)
  // after it was executed but before the answer.
  using Hook = std::function<absl::Status(const Call&)>;

  void SetBefore(Hook hook);
  void SetAfter(Hook hook);
  // Rejects written objects, as a schema or an admission webhook does. Verbs as in Call.
  using Review = std::function<absl::Status(const std::string& verb, const kube::Object&)>;
  void SetReview(Review review);
  std::vector<Call> writes() const;
  int Count(const std::string& verb, const std::string& kind) const;
  std::vector<kube::Object> Objects(const kube::Kind& kind) const;
  std::vector<Change> JournalSince(std::uint64_t version) const;
  // Makes watches from earlier versions return OutOfRange, and ends running watches with it.
  void ForgetHistory();
  // Ends running watches with `status`.
  void EndWatches(absl::Status status);
  // Keeps deleted pods, with a deletionTimestamp, until Finalize, as if a kubelet had to confirm.
  void set_graceful(bool graceful) { graceful_ = graceful; }
  void Finalize(const kube::Kind& kind, const kube::Key& key);
  // Changes an object without a version check.
  void Modify(const kube::Kind& kind, const kube::Key& key,
              const std::function<void(kube::Object&)>& change);

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
                      const std::string& uid) override;
  absl::Status ForceDelete(const kube::Kind& kind, const kube::Key& key,
                           const std::string& uid) override;

 private:
  using Slot = std::pair<std::string, kube::Key>;  // plural, key
  absl::Status Before(const Call& call);
  absl::Status After(const Call& call);
  absl::Status ReviewOf(const std::string& verb, const kube::Object& object);
  void StampLocked(const kube::Kind& kind, kube::Object& object, kube::WatchEvent::Type type);
  absl::Status Remove(const Call& call, const kube::Kind& kind, const kube::Key& key,
                      const std::string& uid, bool graceful);
  absl::StatusOr<kube::Object> Replace(const kube::Kind& kind, const kube::Object& object,
                                       const std::string& verb);

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<Slot, kube::Object> objects_;
  std::vector<Change> journal_;
  std::vector<Call> calls_;
  std::uint64_t version_ = 100, oldest_ = 0, next_uid_ = 1;
  int watch_epoch_ = 0;
  absl::Status watch_end_;
  bool graceful_ = false;
  Hook before_, after_;
  Review review_;
};

}  // namespace lockstep::testing
