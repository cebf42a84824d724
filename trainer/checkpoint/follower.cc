#include "trainer/checkpoint/follower.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {

CheckpointFollower::CheckpointFollower(FileSystem& files, std::string directory,
                                       FollowedSteps steps)
    : files_(files),
      directory_(std::move(directory)),
      last_step_(steps.last),
      done_(steps.after),
      newest_(steps.after) {}

absl::Status CheckpointFollower::Look() {
  present_.clear();
  absl::StatusOr<std::vector<api::CheckpointName>> folders = ListFolders(files_, directory_);
  if (absl::IsNotFound(folders.status())) return absl::OkStatus();  // nothing is saved yet
  LOCKSTEP_RETURN_IF_ERROR(folders.status());
  std::ranges::sort(*folders);
  for (const api::CheckpointName& name : *folders) {
    if (name.step <= done_ || name.step == ended_ || damaged_.contains(name)) continue;
    const absl::StatusOr<bool> committed = IsCommitted(files_, PathOf(name));
    if (absl::IsNotFound(committed.status())) continue;  // removed since it was listed
    if (!committed.ok()) PassOver(name, committed.status());
    if (!committed.ok() || !*committed) continue;
    present_[name.step] = name;  // a later copy replaces an earlier one
    seen_.insert(name.step);
    newest_ = std::max(newest_, name.step);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Snapshot>> CheckpointFollower::Next(const std::string& model_hash,
                                                                 CheckpointParts parts) {
  LOCKSTEP_RETURN_IF_ERROR(Look());
  for (const api::CheckpointName& name : Due()) {
    absl::StatusOr<Snapshot> snapshot = LoadSnapshot(files_, PathOf(name), model_hash, parts);
    if (snapshot.ok()) {
      unreadable_.erase(name);
      Returned(name.step);
      return std::optional<Snapshot>(*std::move(snapshot));
    }
    if (absl::IsFailedPrecondition(snapshot.status())) return snapshot.status();
    if (!IsGone(files_, PathOf(name))) PassOver(name, snapshot.status());
  }
  return std::optional<Snapshot>();
}

// Returns what to try, in this order. The ones behind the first matter only if that cannot be read.
std::vector<api::CheckpointName> CheckpointFollower::Due() const {
  std::vector<api::CheckpointName> due;
  for (const auto& [step, name] : present_) due.push_back(name);
  if (due.size() > kMostBehind) {
    std::ranges::reverse(due);
  } else if (!ended_ && !due.empty() && due.back().step >= last_step_) {
    std::ranges::rotate(due, std::prev(due.end()));
  }
  return due;
}

void CheckpointFollower::PassOver(const api::CheckpointName& name, const absl::Status& why) {
  const bool is_damaged = absl::IsDataLoss(why);
  const bool is_new = (is_damaged ? damaged_ : unreadable_).insert(name).second;
  if (!is_new) return;
  LogWarning(is_damaged ? "a damaged checkpoint is passed over"
                        : "a checkpoint that cannot be read is passed over",
             {{"checkpoint", PathOf(name)}, {"reason", std::string(why.message())}});
}

void CheckpointFollower::Returned(std::int64_t step) {
  if (ended_ || step < last_step_) return Passed(step);
  ended_ = step;
  seen_.erase(step);
}

void CheckpointFollower::Finish() {
  Passed(std::max(done_, newest_));
}

// No checkpoint up to `step` is due any more: those that were seen and not returned are skipped.
void CheckpointFollower::Passed(std::int64_t step) {
  seen_.erase(step);
  const auto end = seen_.upper_bound(step);
  skipped_ += std::distance(seen_.begin(), end);
  seen_.erase(seen_.begin(), end);
  done_ = step;
}

}  // namespace lockstep::train
