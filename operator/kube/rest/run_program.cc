#include "operator/kube/rest/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace lockstep::kube {
namespace {

constexpr std::size_t kMostOutput = 1U << 20U;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

std::vector<std::string> Environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!extra.contains(text.substr(0, text.find('=')))) env.push_back(text);
  }
  for (const auto& [name, value] : extra) env.push_back(name + "=" + value);
  return env;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> Spawn(const std::string& command, std::vector<std::string> words,
                            std::vector<std::string> env, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, command.c_str(), &actions, nullptr, Pointers(words).data(),
                                 Pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return child;
  const std::string message = fmt::format("{}: {}", command, std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
}

// Reads until the writer closes its end.
absl::StatusOr<std::string> ReadAll(int fd, SteadyTime deadline) {
  std::string text;
  std::array<char, 4096> bytes{};
  while (text.size() <= kMostOutput) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd ready{fd, POLLIN, 0};
    const int count = left.count() <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left.count()));
    if (count == 0) return absl::DeadlineExceededError("it took too long");
    if (count < 0 && errno == EINTR) continue;
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return absl::InternalError(fmt::format("reading failed: {}", std::strerror(errno)));
    if (got == 0) return text;
    text.append(bytes.data(), static_cast<std::size_t>(got));
  }
  return absl::InternalError(fmt::format("it printed more than {} bytes", kMostOutput));
}

// Waits for a child. Returns how it failed, or "" if it succeeded.
std::string Reap(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) return fmt::format("it was killed by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("it exited with {}", WEXITSTATUS(status));
  return {};
}

}  // namespace

absl::StatusOr<std::string> RunProgram(const std::string& command,
                                       const std::vector<std::string>& args,
                                       const std::map<std::string, std::string>& extra_env,
                                       Duration timeout) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return absl::InternalError(fmt::format("{}: no pipe: {}", command, std::strerror(errno)));
  }
  const Descriptor output(ends[0]);
  absl::StatusOr<pid_t> child;
  {
    const Descriptor childs_output(ends[1]);
    std::vector<std::string> words{command};
    words.insert(words.end(), args.begin(), args.end());
    child = Spawn(command, std::move(words), Environment(extra_env), childs_output.get());
  }
  if (!child.ok()) return child.status();
  absl::StatusOr<std::string> text = ReadAll(output.get(), deadline);
  if (!text.ok()) kill(*child, SIGKILL);
  const std::string end = Reap(*child);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        fmt::format("{}: {}", command, std::string(text.status().message())));
  }
  if (!end.empty()) return absl::InternalError(fmt::format("{}: {}", command, end));
  return text;
}

}  // namespace lockstep::kube
