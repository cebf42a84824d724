// A library without which the back end does not work.
#pragma once

#include <string>
#include <vector>

#include "trainer/core/shared_library.h"

namespace lockstep::train::cuda {

// As SharedLibrary, but throws DeviceMissing where that returns NotFound. Thread-safe.
class DeviceLibrary {
 public:
  DeviceLibrary(const std::vector<std::string>& names, const std::string& provider);

  std::string path() const { return library_.path(); }
  void* Symbol(const char* name) const;
  template <typename Function>
  void Load(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(Symbol(name));
  }

 private:
  const SharedLibrary library_;
};

}  // namespace lockstep::train::cuda
