// Device memory as the host sees it.
#pragma once

#include <span>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// The memory itself if that is the host's, else a copy of what it holds now. Not thread-safe.
class HostView {
 public:
  // Requires: `backend` outlives the view.
  HostView(Backend& backend, std::span<float> device);
  HostView(HostView&&) = default;

  std::span<float> floats() { return backend_.IsHost() ? device_ : std::span<float>(copy_); }
  // Writes the view's floats to the device.
  void Commit();

 private:
  Backend& backend_;
  std::span<float> device_;
  std::vector<float> copy_;
};

}  // namespace lockstep::train
