#include "base/host_identity.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace lockstep {

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string PidNamespace() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/ns/pid", unknown).string();
}

}  // namespace lockstep
