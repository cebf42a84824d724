// Follows the checkpoints that another process saves, without claiming or changing the directory.
// Files may be removed while they are read.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

struct FollowedSteps {
  std::int64_t after = -1;  // follows from the first checkpoint whose step is beyond this one
  // The run's last step. Its checkpoint, or one of a later step, says that training has ended.
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
};

// Not thread-safe.
class CheckpointFollower {
 public:
  // A follower that has more than this many checkpoints to catch up with goes to the newest.
  static constexpr std::size_t kMostBehind = 10;

  CheckpointFollower(FileSystem& files, std::string directory, FollowedSteps steps = {});

  // Notes which checkpoints are complete by now, so that those that are removed before Next() are
  // known to have been there. On failure, the directory cannot be read; one that does not exist
  // has no checkpoints.
  absl::Status Look();
  // Returns the oldest complete checkpoint beyond those returned before, or nullopt if there is
  // none by now. Once training has ended, returns the run's last one before the others. Skips a
  // checkpoint that was removed, is damaged or cannot be read, with one warning in the last two
  // cases. An unreadable one is tried again until a later one has been returned.
  // FailedPrecondition: the checkpoint is of another model or a newer format. Other errors: see
  // Look.
  absl::StatusOr<std::optional<Snapshot>> Next(const std::string& model_hash,
                                               CheckpointParts parts);

  // Gives up what is not returned yet: counts it as skipped.
  void Finish();

  // The number of complete checkpoints that were seen but never returned, because they were
  // removed, damaged, unreadable or superseded by a newer one. A checkpoint counts once a later one
  // is returned, other than the run's last one, or in Finish().
  std::int64_t skipped() const { return skipped_; }
  // True if at the last look there was a complete checkpoint that Next has not returned.
  bool has_due() const { return !present_.empty(); }
  // The step of the newest complete checkpoint that was seen or followed after; -1: none.
  std::int64_t newest() const { return newest_; }

 private:
  std::string PathOf(const api::CheckpointName& name) const {
    return directory_ + "/" + name.ToString();
  }
  std::vector<api::CheckpointName> Due() const;
  void PassOver(const api::CheckpointName& name, const absl::Status& why);
  void Returned(std::int64_t step);
  void Passed(std::int64_t step);

  FileSystem& files_;
  const std::string directory_;
  const std::int64_t last_step_;       // of the run
  std::int64_t done_;                  // all up to this step are returned or skipped
  std::optional<std::int64_t> ended_;  // the step of the run's last one, once returned
  std::int64_t newest_;
  std::map<std::int64_t, api::CheckpointName> present_;  // complete and not done at the last look
  std::set<std::int64_t> seen_;  // steps that were complete once and are not done
  std::set<api::CheckpointName> damaged_;
  std::set<api::CheckpointName> unreadable_;  // at the last attempt
  std::int64_t skipped_ = 0;
};

}  // namespace lockstep::train
