#include "operator/local/marked_processes.h"

#include <dirent.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace lockstep::local {

std::vector<pid_t> ProcessIds() {
  std::vector<pid_t> ids;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return ids;
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) ids.push_back(pid);
  }
  closedir(proc);
  return ids;
}

bool HasMark(pid_t pid, const std::string& prefix) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  const std::string env((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string wanted = fmt::format("{}={}", kMarkVariable, prefix);
  const std::size_t pos = env.find(wanted);
  return pos != std::string::npos && (pos == 0 || env[pos - 1] == '\0');
}

}  // namespace lockstep::local
