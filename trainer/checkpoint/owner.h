// Decides which process may write to a checkpoint folder: the newest that has claimed it. A process
// that was given up as lost may live on behind a network partition with the same volume mounted.
// Its saves must not mix with those of its successor. Of two jobs, the later one keeps the folder:
// if new processes of the earlier one could take it back, two jobs that run at the same time would
// take it from each other again and again.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

struct CheckpointOwner {
  std::string job_uid;
  int attempt = 0;
  // As in Incarnation: when the pod's supervisor started, in Unix nanoseconds, and how many
  // processes the pod has had in this place. Pods are compared first, because a process restarted
  // in an old pod still belongs to that pod.
  std::int64_t pod_started = 0, process_number = 0;

  bool operator==(const CheckpointOwner&) const = default;
  // True if this process is `other` or came after it. Requires: they are of the same job.
  bool Supersedes(const CheckpointOwner& other) const;
  std::string ToString() const;
};

// What owner.json says.
struct FolderOwner {
  // How many earlier jobs are remembered. Older ones ended long ago.
  static constexpr std::size_t kMostEarlierJobs = 100;

  CheckpointOwner process;
  std::vector<std::string> earlier_jobs = {};  // uids; each lost the folder to the next one

  // Returns true if the job has lost the folder to this owner, directly or through others.
  bool HasTakenFrom(const std::string& job_uid) const;
};

std::string EncodeOwner(const FolderOwner& owner);  // JSON
// DataLoss: `text` is not what EncodeOwner writes.
absl::StatusOr<FolderOwner> DecodeOwner(const std::string& text, const std::string& path);

// Returns the owner of a checkpoint folder; nullopt if it was never claimed or its owner's file is
// damaged or not a file. Other errors: see FileSystem::ReadFile.
absl::StatusOr<std::optional<FolderOwner>> ReadOwner(FileSystem& files,
                                                     const std::string& directory);

// Returns true if a FolderClaim returned `status` because another job has taken the folder and
// lists this job in earlier_jobs. No later process of this job can then take it back.
bool IsTakenByAnotherJob(const absl::Status& status);

// One process's claim to a folder. Not thread-safe.
class FolderClaim {
 public:
  FolderClaim(FileSystem& files, std::string directory, CheckpointOwner owner)
      : files_(files), directory_(std::move(directory)), owner_(std::move(owner)) {}

  // Takes over the folder from its previous owner, if any, even from another job. Aborted: the
  // owner is a newer process of this job, or a job that has taken the folder from this one.
  // FailedPrecondition: there is a folder in the place of the owner's file, or the file system
  // cannot rename files. Other errors: the owner's file could not be read or written.
  // ResourceExhausted: this process may take the folder over, but the disk is full.
  absl::Status Take();
  // Like Take, but returns OK without taking the folder (is_taken() is false) if another job owns
  // it, unless that job has taken it from this one: Aborted.
  absl::Status TakeUnlessAnothers();
  // Checks that this process still owns the folder; takes it if it does not own it yet or the
  // owner's file is gone. Aborted: another process has taken it.
  absl::Status Check();
  bool is_taken() const { return taken_; }

 private:
  absl::Status TakeFrom(const std::optional<FolderOwner>& before);
  absl::Status Superseded(const FolderOwner& by) const;

  FileSystem& files_;
  const std::string directory_;
  const CheckpointOwner owner_;
  bool taken_ = false;
};

}  // namespace lockstep::train
