#include "trainer/observe/termination_message.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "api/v1/names.h"
#include "base/descriptor.h"
#include "base/log.h"

namespace lockstep::train {

std::string TerminationMessagePath(const std::optional<std::string>& named) {
  if (named) return *named;
  return std::filesystem::exists(api::kTerminationMessagePath) ? api::kTerminationMessagePath : "";
}

void LeaveTerminationMessage(const std::string& path, const std::string& message) {
  if (path.empty()) return;
  // Not through a link: under `lockstep run`, others may be able to write to the file's folder.
  const Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666));
  const auto bytes = static_cast<ssize_t>(message.size());
  if (file.fd() >= 0 && ::write(file.fd(), message.data(), message.size()) == bytes) return;
  LogWarning("cannot write the termination message", {{"path", path}});
}

}  // namespace lockstep::train
