// Decides which process may write to a checkpoint folder: the newest that has claimed it. A process
// that was given up as lost may live on behind a network partition with the same volume mounted.
// Its saves must not mix with those of its successor.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

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
  // True if this process may take over the folder from `other`.
  bool Supersedes(const CheckpointOwner& other) const;
  std::string ToString() const;
};

std::string EncodeOwner(const CheckpointOwner& owner);  // JSON
// DataLoss: `text` is not what EncodeOwner writes.
absl::StatusOr<CheckpointOwner> DecodeOwner(const std::string& text, const std::string& path);

// Returns the owner of a checkpoint folder; nullopt if it was never claimed or its owner's file is
// damaged or not a file. Other errors: see FileSystem::ReadFile.
absl::StatusOr<std::optional<CheckpointOwner>> ReadOwner(FileSystem& files,
                                                         const std::string& directory);

// One process's claim to a folder. Not thread-safe.
class FolderClaim {
 public:
  FolderClaim(FileSystem& files, std::string directory, CheckpointOwner owner)
      : files_(files), directory_(std::move(directory)), owner_(std::move(owner)) {}

  // Takes over the folder from its previous owner, if any. Aborted: the owner is a newer process.
  // FailedPrecondition: there is a folder in the place of the owner's file. Other errors: that file
  // could not be read or written.
  absl::Status Take();
  // Checks that this process still owns the folder; takes it if it does not own it yet or the
  // owner's file is gone. Aborted: another process has taken it.
  absl::Status Check();

 private:
  absl::Status Superseded(const CheckpointOwner& by) const;

  FileSystem& files_;
  const std::string directory_;
  const CheckpointOwner owner_;
  bool taken_ = false;
};

}  // namespace lockstep::train
