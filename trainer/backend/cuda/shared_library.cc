#include "trainer/backend/cuda/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>

#include "trainer/backend/device_missing.h"

namespace lockstep::train::cuda {

SharedLibrary::SharedLibrary(const std::vector<std::string>& names, const std::string& provider) {
  const char* folder = std::getenv("LOCKSTEP_CUDA_PATH");
  std::string tried;
  for (const std::string& name : names) {
    std::vector<std::string> paths = {name};
    if (folder != nullptr && *folder != '\0')
      paths.insert(paths.begin(), fmt::format("{}/{}", folder, name));
    for (const std::string& path : paths) {
      handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) {
        name_ = path;
        return;
      }
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", ::dlerror());
    }
  }
  throw DeviceMissing(fmt::format("back end cuda: {} was not found: {}", provider, tried));
}

std::string SharedLibrary::path() const {
  const link_map* map = nullptr;
  return ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name_;
}

void* SharedLibrary::Symbol(const char* name) const {
  void* symbol = ::dlsym(handle_, name);
  if (symbol == nullptr) {
    throw DeviceMissing(
        fmt::format("back end cuda: {} has no function {}: it is too old", name_, name));
  }
  return symbol;
}

}  // namespace lockstep::train::cuda
