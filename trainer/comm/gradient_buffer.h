// Memory for gradients that ranks of the same host can see, so that a sum needs no copies.
// Lives as long as the process; communicators come and go over it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep::train {

class GradientBuffer {
 public:
  // Zeroed; in /dev/shm if there is room, else private memory (then name() is empty and same-host
  // ranks fall back to sockets).
  static absl::StatusOr<std::unique_ptr<GradientBuffer>> Create(std::size_t floats);
  virtual ~GradientBuffer() = default;
  virtual float* data() = 0;
  virtual std::size_t size() const = 0;     // floats
  virtual const std::string& name() const = 0;
};

}  // namespace lockstep::train
