// The name of a checkpoint's folder, which the trainer writes and `lockstep run` looks for.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::api {

// A checkpoint's folder has this file once it is complete.
inline constexpr char kManifestName[] = "manifest.json";

// step-00000200, or step-00000200.1 if that step is saved again while the first folder exists.
// Ordered by step, then by copy: a later copy supersedes an earlier one.
struct CheckpointName {
  std::int64_t step = 0, copy = 0;
  auto operator<=>(const CheckpointName&) const = default;

  std::string ToString() const;
  // Returns nullopt for names that ToString would not have written.
  static std::optional<CheckpointName> Parse(std::string_view name);
};

}  // namespace lockstep::api
