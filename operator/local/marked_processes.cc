#include "operator/local/marked_processes.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "base/read_file.h"

namespace lockstep::local {

namespace {

// Indexes into the fields of /proc/<pid>/stat from its third (proc(5)). StatFields returns none if
// there is no such process or the line lacks env_end. It splits after the name, which may contain
// anything.
enum StatField : std::uint8_t {
  kState = 0,
  kParent = 1,
  kFlags = 6,
  kEndCode = 24,
  kEnvStart = 47,
  kEnvEnd = 48
};
std::vector<std::string> StatFields(pid_t pid) {
  const std::string text =
      ReadFile(fmt::format("/proc/{}/stat", pid), "a process's state").value_or("");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::vector<std::string> fields =
      absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipWhitespace());
  return fields.size() > kEnvEnd ? fields : std::vector<std::string>();
}

// For a process whose environment was read as empty. An exec first replaces the memory, then sets
// the location of the environment, and last that of the code; a file that was opened before the
// exec reads as empty after it.
bool IsExecuting(pid_t pid) {
  constexpr unsigned long kKernelThread = 0x00200000;
  const std::vector<std::string> fields = StatFields(pid);
  if (fields.empty() || fields[kState] == "Z" || fields[kState] == "X") return false;
  if ((std::stoul(fields[kFlags]) & kKernelThread) != 0) return false;
  const bool has_none = fields[kEndCode] != "0" && fields[kEnvStart] == fields[kEnvEnd];
  return !has_none;
}

}  // namespace

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

pid_t ParentOf(pid_t pid) {
  const std::vector<std::string> fields = StatFields(pid);
  return fields.empty() ? 0 : std::stoi(fields[kParent]);
}

Mark MarkOf(pid_t pid, const std::string& prefix) {
  const absl::StatusOr<std::string> env =
      ReadFile(fmt::format("/proc/{}/environ", pid), "a process's environment");
  if (!env.ok()) return Mark::kNone;
  if (env->empty()) return IsExecuting(pid) ? Mark::kExecuting : Mark::kNone;
  const std::string wanted = fmt::format("{}={}", kMarkVariable, prefix);
  const std::size_t pos = env->find(wanted);
  const bool found = pos != std::string::npos && (pos == 0 || (*env)[pos - 1] == '\0');
  return found ? Mark::kFound : Mark::kNone;
}

void KillMarked(const std::string& prefix, const std::function<std::vector<pid_t>()>& ids,
                const std::function<bool(pid_t)>& end) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (bool again = true; again;) {
    again = false;
    for (const pid_t pid : ids()) {
      const Mark mark = MarkOf(pid, prefix);
      if (mark == Mark::kFound) again |= end(pid);
      if (mark == Mark::kExecuting) again |= std::chrono::steady_clock::now() < patience;
    }
    if (again) sched_yield();
  }
}

}  // namespace lockstep::local
