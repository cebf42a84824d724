// Follows the checkpoints that another process saves, without changing the directory: it takes no
// part in the question who owns it, and its files may be removed while it reads them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

// Not thread-safe.
class CheckpointFollower {
 public:
  // A follower that has more than this many checkpoints to catch up with goes to the newest.
  static constexpr std::size_t kMostBehind = 10;

  // Follows from the first checkpoint whose step is beyond `after`.
  CheckpointFollower(FileSystem& files, std::string directory, std::int64_t after = -1);

  // Notes which checkpoints are complete by now, so that those that are removed before Next() are
  // known to have been there. On failure, the directory cannot be read; one that does not exist
  // has no checkpoints.
  absl::Status Look();
  // Returns the oldest complete checkpoint beyond the one returned before, or nullopt if there is
  // none by now. Passes over one that was removed, and, with a warning, one that is damaged.
  // FailedPrecondition: the checkpoint is of another model or a newer format. Other errors: the
  // disk; they may be transient.
  absl::StatusOr<std::optional<Snapshot>> Next(const std::string& model_hash,
                                               CheckpointParts parts);

  // The number of complete checkpoints that were seen but never returned, because they were
  // removed, damaged or superseded by a newer one.
  std::int64_t skipped() const { return skipped_; }

 private:
  std::string PathOf(const FolderName& name) const { return directory_ + "/" + name.ToString(); }
  bool IsGone(const FolderName& name) const;
  void Passed(std::int64_t step);

  FileSystem& files_;
  const std::string directory_;
  std::int64_t last_;                           // the step returned last
  std::map<std::int64_t, FolderName> present_;  // complete and beyond last_ at the last look
  std::set<std::int64_t> seen_;                 // steps beyond last_ that were complete once
  std::set<FolderName> damaged_;
  std::int64_t skipped_ = 0;
};

}  // namespace lockstep::train
