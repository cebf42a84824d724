// Who may write to a checkpoint folder: the newest process that has claimed it. A process that was
// given up for lost may still live behind a partition, on the same volume; what it saves then must
// not mix with what its successor saves.
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
  // When the pod's supervisor started, in Unix nanoseconds, and which of the processes it is that
  // the pod has had in this place: a pod that takes another's place is made later, and a replica
  // that is started again in an old pod is still of that pod.
  std::int64_t pod_started = 0, process_number = 0;

  bool operator==(const CheckpointOwner&) const = default;
  // Whether this one may take the folder over from `other`.
  bool Supersedes(const CheckpointOwner& other) const;
  std::string ToString() const;
};

std::string EncodeOwner(const CheckpointOwner& owner);  // JSON
// DataLoss: it is not what EncodeOwner writes.
absl::StatusOr<CheckpointOwner> DecodeOwner(const std::string& text, const std::string& path);

// One process's hold on a folder. Not thread-safe.
class FolderClaim {
 public:
  FolderClaim(FileSystem& files, std::string directory, CheckpointOwner owner)
      : files_(files), directory_(std::move(directory)), owner_(std::move(owner)) {}

  // Takes the folder over from whoever had it before. Aborted: that one is later. Others: the
  // owner's file could not be read or written.
  absl::Status Take();
  // That the folder is still this process's, or can be taken by now. Aborted: somebody has taken
  // it.
  absl::Status Check();

 private:
  absl::StatusOr<std::optional<CheckpointOwner>> Read() const;
  absl::Status Superseded(const CheckpointOwner& by) const;

  FileSystem& files_;
  const std::string directory_;
  const CheckpointOwner owner_;
  bool taken_ = false;
};

}  // namespace lockstep::train
