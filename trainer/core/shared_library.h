// A vendor's library, opened at run time, so that one program serves machines with and without it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// Stays open until the process ends: the vendors' libraries do not survive being closed.
// Thread-safe.
class SharedLibrary {
 public:
  // Opens the first of `names` that the dynamic linker finds, each first in the folder that the
  // environment variable LOCKSTEP_CUDA_PATH names, if any. NotFound says what was tried and that
  // `provider`, such as "NVIDIA's driver", is missing.
  static absl::StatusOr<SharedLibrary> Open(const std::vector<std::string>& names,
                                            const std::string& provider);

  // The address of a function. NotFound: the library has none of that name.
  absl::StatusOr<void*> Symbol(const char* name) const;
  template <typename Function>
  absl::Status Load(Function& function, const char* name) const {
    const absl::StatusOr<void*> symbol = Symbol(name);
    if (symbol.ok()) function = reinterpret_cast<Function>(*symbol);
    return symbol.status();
  }
  // What was opened, and the file that the dynamic linker found for it.
  const std::string& name() const { return name_; }
  std::string path() const;

 private:
  SharedLibrary(std::string name, void* handle) : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  void* handle_;
};

}  // namespace lockstep::train
