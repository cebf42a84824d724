#include "operator/kube/rest/run_program.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "base/descriptor.h"
#include "base/status.h"

namespace lockstep::kube {
namespace {

constexpr std::size_t kMostOutput = 1U << 20U;

int MillisecondsTo(SteadyTime deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<std::int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
}

absl::Status TookTooLong() {
  return absl::DeadlineExceededError("did not finish in time");
}

// Reads until the writer closes its end.
absl::StatusOr<std::string> ReadAll(int fd, SteadyTime deadline) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (text.size() <= kMostOutput) {
    const int left = MillisecondsTo(deadline);
    pollfd ready{fd, POLLIN, 0};
    const int count = left == 0 ? 0 : poll(&ready, 1, left);
    if (count == 0) return TookTooLong();
    if (count < 0 && errno == EINTR) continue;
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return absl::InternalError(fmt::format("cannot read its output: {}", std::strerror(errno)));
    if (got == 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return absl::InternalError(fmt::format("printed more than {} bytes", kMostOutput));
}

// Waits until the process has ended, which may be long after it has closed its output.
absl::Status AwaitEnd(pid_t child, SteadyTime deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Descriptor process, WatchProcess(child));
  pollfd ended{process.fd(), POLLIN, 0};
  int count = 0;
  do {
    count = poll(&ended, 1, MillisecondsTo(deadline));
  } while (count < 0 && errno == EINTR);
  return count > 0 ? absl::OkStatus() : TookTooLong();
}

absl::StatusOr<pid_t> Start(const std::string& command, const std::vector<std::string>& args,
                            const Environment& extra_env, int output) {
  LaunchSpec spec;
  spec.env = CurrentEnvironment();
  LOCKSTEP_ASSIGN_OR_RETURN(spec.program, FindProgram(command, spec.env));
  for (const auto& [name, value] : extra_env) spec.env[name] = value;
  spec.argv = {command};
  spec.argv.insert(spec.argv.end(), args.begin(), args.end());
  spec.stdio = {-1, output, STDERR_FILENO};
  spec.close_others = true;      // otherwise it inherits the HTTP library's connections
  spec.new_session = true;       // so that it can be killed together with what it has started
  spec.dies_with_thread = true;  // an interrupt from the keyboard no longer reaches it
  return Launch(spec);
}

absl::StatusOr<std::string> Run(const std::string& command, const std::vector<std::string>& args,
                                const Environment& extra_env, SteadyTime deadline) {
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t child, Start(command, args, extra_env, output.write.fd()));
  output.write.Close();
  absl::StatusOr<std::string> text = ReadAll(output.read.fd(), deadline);
  if (text.ok()) {
    if (absl::Status ended = AwaitEnd(child, deadline); !ended.ok()) text = std::move(ended);
  }
  if (!text.ok()) kill(-child, SIGKILL);
  const int status = WaitFor(child);
  if (text.ok() && ExitCodeOf(status) != 0) {
    return absl::InternalError("ended with " + DescribeExit(status));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const std::string& command,
                                       const std::vector<std::string>& args,
                                       const Environment& extra_env, Duration timeout) {
  absl::StatusOr<std::string> text =
      Run(command, args, extra_env, std::chrono::steady_clock::now() + timeout);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      fmt::format("{}: {}", command, std::string(text.status().message())));
}

}  // namespace lockstep::kube
