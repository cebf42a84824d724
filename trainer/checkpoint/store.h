// Saved training states in one folder; format.md describes the files. The manifest is written last
// and is the commit: whatever dies before, the folder's newest complete checkpoint is untouched.
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
  nlohmann::json state;                // sampler, ledger, optimizer step, seed, …
  std::vector<NamedTensor> model;      // parameters and states: model.safetensors
  std::vector<NamedTensor> optimizer;  // slots: optimizer.safetensors
  std::string model_hash;  // of names and shapes; a checkpoint of another model is refused
  Time saved;              // to the second; the epoch: of a program that did not write it down
};

struct CheckpointAge {
  std::int64_t step = 0;
  Time saved;  // as Snapshot's
};

// One thread at a time.
class CheckpointStore {
 public:
  // For the one process that saves: creates the folder if need be and claims it for `owner`. `keep`
  // newest checkpoints are kept, at least one. Aborted: a newer process has claimed the folder.
  static absl::StatusOr<std::unique_ptr<CheckpointStore>> Open(FileSystem& files,
                                                               const std::string& directory,
                                                               int keep,
                                                               const CheckpointOwner& owner);
  // For everybody else: it loads, and changes nothing.
  static std::unique_ptr<CheckpointStore> OpenReadOnly(FileSystem& files,
                                                       const std::string& directory);
  virtual ~CheckpointStore() = default;
  // Returns the checkpoint's folder. ResourceExhausted (disk full) and others leave earlier
  // checkpoints as they were and no half-written one behind. Aborted: a newer process has claimed
  // the folder, and nothing was saved. FailedPrecondition: the store was opened for reading.
  virtual absl::StatusOr<std::string> Save(const Snapshot& snapshot) = 0;
  // The newest complete checkpoint: one that is damaged or cannot be read is passed over with a
  // warning that names the file and the reason. nullopt if there is none at all.
  // FailedPrecondition: of another model or of a newer format. DataLoss: there are checkpoints, and
  // every one is damaged. Unavailable: as DataLoss, but of some only the reading failed, which may
  // pass.
  virtual absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) = 0;
  // Of the newest checkpoint with a manifest that can be read, whether or not its tensors can.
  // nullopt if there is none. Errors: the folder cannot be read.
  virtual absl::StatusOr<std::optional<CheckpointAge>> Newest() = 0;
};

}  // namespace lockstep::train
