#include "trainer/core/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <cstdlib>

namespace lockstep::train {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::vector<std::string>& names,
                                                  const std::string& provider) {
  const char* folder = std::getenv("LOCKSTEP_CUDA_PATH");
  std::string tried;
  for (const std::string& name : names) {
    std::vector<std::string> paths = {name};
    if (folder != nullptr && *folder != '\0')
      paths.insert(paths.begin(), fmt::format("{}/{}", folder, name));
    for (const std::string& path : paths) {
      void* const handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle != nullptr) return SharedLibrary(path, handle);
      tried += fmt::format("{}{}", tried.empty() ? "" : "; ", ::dlerror());
    }
  }
  return absl::NotFoundError(fmt::format("{} was not found: {}", provider, tried));
}

std::string SharedLibrary::path() const {
  const link_map* map = nullptr;
  return ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name_;
}

absl::StatusOr<void*> SharedLibrary::Symbol(const char* name) const {
  void* const symbol = ::dlsym(handle_, name);
  if (symbol != nullptr) return symbol;
  return absl::NotFoundError(fmt::format("{} has no function {}: it is too old", name_, name));
}

}  // namespace lockstep::train
