// A vendor's library, opened at run time, so that one program serves machines with and without it.
#pragma once

#include <string>
#include <vector>

namespace lockstep::train::cuda {

// Stays open until the process ends: the vendors' libraries do not survive being closed.
// Thread-safe.
class SharedLibrary {
 public:
  // Opens the first of `names` that the dynamic linker finds, each first in the folder that the
  // environment variable LOCKSTEP_CUDA_PATH names, if any. On failure throws DeviceMissing, which
  // says what was tried and what `provider`, such as "NVIDIA's driver", is missing.
  SharedLibrary(const std::vector<std::string>& names, const std::string& provider);

  // The address of a function. Throws DeviceMissing if the library has none of that name.
  void* Symbol(const char* name) const;
  template <typename Function>
  void Load(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(Symbol(name));
  }
  // What was opened, and the file that the dynamic linker found for it.
  const std::string& name() const { return name_; }
  std::string path() const;

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace lockstep::train::cuda
