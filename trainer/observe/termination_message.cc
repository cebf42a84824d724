#include "trainer/observe/termination_message.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/new_file.h"

namespace lockstep::train {

std::string TerminationMessagePath(const std::optional<std::string>& named) {
  if (named) return *named;
  return std::filesystem::exists(api::kTerminationMessagePath) ? api::kTerminationMessagePath : "";
}

void LeaveTerminationMessage(const std::string& path, const std::string& message) {
  if (path.empty()) return;
  // Truncates the file instead of replacing it: in a container, it is mounted from outside.
  const Descriptor file = OpenOwn(path, O_WRONLY | O_TRUNC, 0666);
  const auto bytes = static_cast<ssize_t>(message.size());
  if (file.fd() >= 0 && ::write(file.fd(), message.data(), message.size()) == bytes) return;
  LogWarning("cannot write the termination message", {{"path", path}});
}

}  // namespace lockstep::train
