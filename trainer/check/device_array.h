// Values in a back end's device memory, for checks and tests that put them there and look at them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/settle.h"
#include "trainer/core/arena.h"

namespace lockstep::train {

template <typename T>
class DeviceArray {
 public:
  DeviceArray(Backend& backend, const std::vector<T>& values)
      : backend_(backend), size_(values.size()) {
    arena_.Reserve(size_ * sizeof(T));
    arena_.Allocate(backend.memory());
    Set(values);
  }
  ~DeviceArray() { Settle(backend_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return arena_.At<T>(0); }
  std::vector<T> Values() const {
    std::vector<T> values(size_);
    backend_.Download(data(), values.data(), size_ * sizeof(T));
    return values;
  }
  // Requires: as many values as before.
  void Set(const std::vector<T>& values) {
    backend_.Upload(values.data(), data(), size_ * sizeof(T));
  }

 private:
  Backend& backend_;
  const std::size_t size_;
  Arena arena_;
};

// What a range of device memory holds.
inline std::vector<float> Download(Backend& backend, std::span<const float> device) {
  std::vector<float> values(device.size());
  backend.Download(device.data(), values.data(), device.size_bytes());
  return values;
}

}  // namespace lockstep::train
