// Notices that an Evaluator does not see the checkpoints that the leading pod saves: their
// directory is not on a volume that both mount.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace lockstep::train {

// Not thread-safe.
class UnseenCheckpoints {
 public:
  // How long a saved checkpoint may take to show on another node: longer than a client of a network
  // file system may keep a directory in its cache.
  static constexpr Duration kPatience = std::chrono::minutes(2);

  // `saved`: the step of the last checkpoint that the leading pod has saved; `newest`: that of the
  // newest one that was ever complete in the directory as it is seen here; -1: none. Returns true
  // if one is missing and for kPatience none has come, once until one comes.
  bool UpdateMissing(std::int64_t saved, std::int64_t newest, SteadyTime now);
  // True from the call that has returned true until one has come.
  bool is_told() const { return is_told_; }

 private:
  std::int64_t newest_ = -1;
  std::optional<SteadyTime> since_;  // when one was first missing; nullopt: none is
  bool is_told_ = false;
};

}  // namespace lockstep::train
