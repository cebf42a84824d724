// One checkpoint's folder within the checkpoint directory, and how its files are read.
// These functions change nothing on the disk. See format.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/checkpoint_name.h"
#include "trainer/checkpoint/file_system.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/store.h"

namespace lockstep::train {

inline constexpr char kModelName[] = "model.safetensors";
inline constexpr char kOptimizerName[] = "optimizer.safetensors";

// Returns the folders of `directory` that have a checkpoint's name, complete or not, in no
// particular order. Errors: see FileSystem.
absl::StatusOr<std::vector<api::CheckpointName>> ListFolders(FileSystem& files,
                                                             const std::string& directory);

// True if the checkpoint in `folder` (a path) is complete: it has its manifest. DataLoss: `folder`
// is a file. Other errors: see FileSystem.
absl::StatusOr<bool> IsCommitted(FileSystem& files, const std::string& folder);

// True if the checkpoint in `folder`, which was complete, was removed since, or is being removed:
// its owner removes the manifest first.
bool IsGone(FileSystem& files, const std::string& folder);

// Errors: see DecodeManifest and FileSystem.
absl::StatusOr<Manifest> ReadManifest(FileSystem& files, const std::string& folder);

enum class CheckpointParts { kModel, kModelAndOptimizer };

// Reads a complete checkpoint and compares it with its manifest. With kModel, Snapshot::model is
// the best one, if the checkpoint has that, and the other tensors are empty. FailedPrecondition: it
// is of another model or a newer format. DataLoss: a file is missing or damaged; names it. Other
// errors: see FileSystem.
absl::StatusOr<Snapshot> LoadSnapshot(FileSystem& files, const std::string& folder,
                                      const std::string& model_hash, CheckpointParts parts);

}  // namespace lockstep::train
