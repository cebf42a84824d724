#include "trainer/backend/cuda/device/device_library.h"

#include <fmt/format.h>

#include <utility>

#include "trainer/backend/device_missing.h"

namespace lockstep::train::cuda {
namespace {

template <typename T>
T ValueOrThrow(absl::StatusOr<T> found) {
  if (found.ok()) return *std::move(found);
  throw DeviceMissing(fmt::format("back end cuda: {}", std::string(found.status().message())));
}

}  // namespace

DeviceLibrary::DeviceLibrary(const std::vector<std::string>& names, const std::string& provider)
    : library_(ValueOrThrow(SharedLibrary::Open(names, provider))) {}

void* DeviceLibrary::Symbol(const char* name) const {
  return ValueOrThrow(library_.Symbol(name));
}

}  // namespace lockstep::train::cuda
