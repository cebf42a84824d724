#include "trainer/observe/termination_message.h"

#include <filesystem>
#include <fstream>

#include "api/v1/names.h"
#include "base/log.h"

namespace lockstep::train {

std::string TerminationMessagePath(const std::optional<std::string>& named) {
  if (named) return *named;
  return std::filesystem::exists(api::kTerminationMessagePath) ? api::kTerminationMessagePath : "";
}

void LeaveTerminationMessage(const std::string& path, const std::string& message) {
  if (path.empty()) return;
  std::ofstream file(path, std::ios::trunc);
  if (file << message << std::flush) return;
  LogWarning("cannot write the termination message", {{"path", path}});
}

}  // namespace lockstep::train
