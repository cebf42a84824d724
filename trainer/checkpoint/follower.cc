#include "trainer/checkpoint/follower.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {

CheckpointFollower::CheckpointFollower(FileSystem& files, std::string directory, std::int64_t after)
    : files_(files), directory_(std::move(directory)), last_(after) {}

absl::Status CheckpointFollower::Look() {
  present_.clear();
  absl::StatusOr<std::vector<FolderName>> folders = ListFolders(files_, directory_);
  if (absl::IsNotFound(folders.status())) return absl::OkStatus();  // nothing is saved yet
  LOCKSTEP_RETURN_IF_ERROR(folders.status());
  std::ranges::sort(*folders);
  for (const FolderName& name : *folders) {
    if (name.step <= last_ || damaged_.contains(name)) continue;
    const absl::StatusOr<bool> committed = IsCommitted(files_, PathOf(name));
    if (absl::IsNotFound(committed.status())) continue;  // removed since it was listed
    LOCKSTEP_RETURN_IF_ERROR(committed.status());
    if (!*committed) continue;
    present_[name.step] = name;  // a later copy replaces an earlier one
    seen_.insert(name.step);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Snapshot>> CheckpointFollower::Next(const std::string& model_hash,
                                                                 CheckpointParts parts) {
  LOCKSTEP_RETURN_IF_ERROR(Look());
  if (present_.size() > kMostBehind) present_.erase(present_.begin(), std::prev(present_.end()));
  for (const auto& [step, name] : present_) {
    absl::StatusOr<Snapshot> snapshot = LoadSnapshot(files_, PathOf(name), model_hash, parts);
    if (snapshot.ok()) {
      Passed(step);
      return std::optional<Snapshot>(*std::move(snapshot));
    }
    if (absl::IsFailedPrecondition(snapshot.status())) return snapshot.status();
    if (IsGone(name)) continue;
    if (!absl::IsDataLoss(snapshot.status())) return snapshot.status();
    damaged_.insert(name);
    LogWarning(
        "a damaged checkpoint is passed over",
        {{"checkpoint", PathOf(name)}, {"damage", std::string(snapshot.status().message())}});
  }
  return std::optional<Snapshot>();
}

// The owner removes the manifest first.
bool CheckpointFollower::IsGone(const FolderName& name) const {
  const absl::StatusOr<bool> committed = IsCommitted(files_, PathOf(name));
  return committed.ok() ? !*committed : absl::IsNotFound(committed.status());
}

void CheckpointFollower::Passed(std::int64_t step) {
  const auto end = seen_.upper_bound(step);
  skipped_ += std::distance(seen_.begin(), end) - 1;
  seen_.erase(seen_.begin(), end);
  last_ = step;
}

}  // namespace lockstep::train
