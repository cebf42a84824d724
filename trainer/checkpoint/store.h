// Saves and loads training states in one folder; format.md describes the files. Writing the
// manifest last commits a checkpoint: a crash before that leaves earlier checkpoints intact.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/owner.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::train {

struct Snapshot {
  std::int64_t step = 0;               // steps done
  nlohmann::json state;                // run state and settings: see format.md
  std::vector<NamedTensor> model;      // parameters, states and averages after that step
  std::vector<NamedTensor> optimizer;  // slots: optimizer.safetensors
  std::string model_hash;  // of names and shapes; a checkpoint of another model is refused
  Time saved;              // with a resolution of one second; the Unix epoch: unknown
  // Those of the run's best evaluation, if that was at another step and the run ends with them.
  std::vector<NamedTensor> best;
};

struct CheckpointAge {
  std::int64_t step = 0;
  Time saved;  // these two as in Snapshot
  nlohmann::json state;
};

// As the number of checkpoints to keep: keeps only the checkpoint that was saved last, whatever its
// step.
inline constexpr int kKeepLastSaved = 0;

// Not thread-safe.
class CheckpointStore {
 public:
  // For the one process that saves: creates the folder if necessary and claims it for `owner`,
  // unless it belongs to another job: see Claim. Keeps the newest `keep` >= 1 checkpoints (or see
  // kKeepLastSaved), and also those of later steps than the one saved last, because another run has
  // saved them. Aborted: a newer process has claimed the folder. FailedPrecondition: a folder is
  // where the owner's file belongs. Other errors: the folder cannot be created. If the claim fails
  // for another reason, logs a warning and returns the store; Claim and Save claim the folder
  // again.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(FileSystem& files,
                                                               const std::string& directory,
                                                               int keep,
                                                               const CheckpointOwner& owner);
  virtual ~CheckpointStore() = default;
  // Claims the folder, even from another job, unless this process has claimed it already. Call it
  // only when this process is about to train, from the checkpoint of the last LoadLatest or from
  // the start: another job may still be running, and must not lose its folder to a job that is then
  // refused because of what it finds there. Returns true if another process has saved a newer
  // checkpoint since LoadLatest: load again, and begin with that one. Aborted, FailedPrecondition:
  // as for Open. If the claim fails for another reason, logs a warning and continues. Other errors:
  // the folder cannot be listed.
  virtual absl::StatusOr<bool> Claim() = 0;
  // True if this process has claimed the folder; it may have lost it since.
  virtual bool IsClaimed() const = 0;
  // Saves a checkpoint and returns its folder. Then removes old checkpoints. On failure, such as
  // ResourceExhausted for a full disk, earlier checkpoints are unchanged and no incomplete one is
  // visible. If only the last sync has failed, the new checkpoint is complete and visible, but may
  // not survive a crash. Aborted: a newer process has claimed the folder, or the folder could not
  // be claimed before and another process has saved a checkpoint there since LoadLatest; nothing
  // was saved.
  virtual absl::StatusOr<std::string> Save(const Snapshot& snapshot) = 0;
  // Returns the newest complete checkpoint, or nullopt if there is none at all. Skips one that is
  // damaged or cannot be read, with a warning that names the file and the reason.
  // FailedPrecondition: it is of another model or a newer format. DataLoss: all checkpoints are
  // damaged. Unavailable: none can be loaded, some because of errors that may be transient.
  virtual absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) = 0;
  // Returns the age of the newest checkpoint with a readable manifest, even if its tensors are
  // damaged. Returns nullopt if there is none. Errors: the folder cannot be listed.
  virtual absl::StatusOr<std::optional<CheckpointAge>> Newest() = 0;
};

// Removes a complete checkpoint, whose folder is at `path`, the manifest first: a removal that is
// interrupted leaves no damaged checkpoint behind. Only for the process that saves there.
absl::Status RemoveCheckpoint(FileSystem& files, const std::string& path);

}  // namespace lockstep::train
