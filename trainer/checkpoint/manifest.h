// manifest.json lists a checkpoint's files; its presence commits the checkpoint.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::train {

inline constexpr std::int64_t kCheckpointFormat = 2;

// The file of the parameters and states from which the training goes on, if model.safetensors is
// that of the best evaluation. An earlier version would go on from the wrong ones, so only such a
// checkpoint has format 2.
inline constexpr char kTrainingName[] = "training.safetensors";

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  std::int64_t step = 0;
  nlohmann::json state;
  std::string model_hash;
  std::vector<ManifestFile> files;
  Time saved;  // to the second; the epoch: unknown
  bool operator==(const Manifest&) const = default;
};

bool HasTrainingFile(const Manifest& manifest);

// Returns JSON text that includes its own checksum.
std::string EncodeManifest(const Manifest& manifest);

// FailedPrecondition: a newer format; names both versions. DataLoss: any other fault.
absl::StatusOr<Manifest> DecodeManifest(const std::string& text, const std::string& path);

}  // namespace lockstep::train
