#include "operator/cli/local/work_dir.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "base/host_identity.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/shallow_json.h"
#include "base/written_at.h"

namespace lockstep::cli {
namespace {

constexpr int kMostRuns = 1000;  // of one job in one folder
constexpr char kReport[] = "/report.json";
constexpr char kView[] = "/view.json";
constexpr char kMetrics[] = "/metrics.json";
constexpr char kLock[] = "/.lock";
constexpr mode_t kFileMode = 0666;  // less the umask
constexpr mode_t kLockMode = 0600;  // whoever may open it may hold the lock
constexpr mode_t kViewMode = 0600;
constexpr Duration kBetweenTries = std::chrono::milliseconds(10);
constexpr std::size_t kMostJson = std::size_t{16} << 20U;
constexpr int kDeepestJson = 200;  // levels

struct Holder {
  pid_t process = 0;
  std::string pid_namespace;  // empty: an earlier version wrote none
};

Holder ReadHolder(int fd) {
  std::array<char, 64> text{};
  if (read(fd, text.data(), text.size() - 1) <= 0) return {};
  std::istringstream words(text.data());
  Holder holder;
  words >> holder.process >> holder.pid_namespace;
  return holder;
}

bool IsOfThisNamespace(const Holder& holder) {
  return holder.pid_namespace.empty() || holder.pid_namespace == PidNamespace();
}

bool IsGone(pid_t process) {
  return kill(process, 0) != 0 && errno == ESRCH;
}

// A run holds the lock exclusively; a process that asks takes it shared for a moment. The process
// id in the file is not enough: another process may have it by now, as is usual in containers.
bool IsHeldByRun(int fd) {
  if (flock(fd, LOCK_SH | LOCK_NB) != 0) return true;
  flock(fd, LOCK_UN);
  return false;
}

// Returns false if others hold the lock all the time.
bool LockWithin(int fd, Duration patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return true;
}

// Does nothing if there is none.
void RemoveFile(const std::string& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
}

// Null if there is none, or only a part of one.
nlohmann::json ReadJson(const std::string& path) {
  nlohmann::json json = ParseShallowJson(ReadOwn(path, kMostJson), kDeepestJson);
  return json.is_discarded() ? nlohmann::json() : json;
}

}  // namespace

WorkDir::WorkDir(std::string shown, int lock_fd)
    : shown_(std::move(shown)),
      path_(std::filesystem::absolute(shown_).lexically_normal().string()),
      lock_fd_(lock_fd) {
  if (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

WorkDir::WorkDir(WorkDir&& other) noexcept
    : shown_(std::move(other.shown_)),
      path_(std::move(other.path_)),
      skipped_(std::move(other.skipped_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)) {}

WorkDir::~WorkDir() {
  if (lock_fd_ >= 0) close(lock_fd_);
}

// Aborted if another run holds the lock.
absl::StatusOr<WorkDir> WorkDir::Lock(const std::string& path, Duration patience) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::FailedPreconditionError(
        fmt::format("cannot create the work directory {}: {}", path, error.message()));
  }
  const std::string lock_path = path + kLock;
  const int fd = OpenOwn(lock_path, O_RDWR, kLockMode).Release();
  if (fd < 0) {
    const std::string why = errno == ELOOP || errno == ENXIO
                                ? "its .lock is a link or no file, expected a file or nothing"
                                : std::strerror(errno);
    return absl::FailedPreconditionError(
        fmt::format("cannot write to the work directory {}: {}", path, why));
  }
  // An earlier version's may be open to others. On failure they can delay this run, and no more.
  if (fchmod(fd, kLockMode) != 0) LogWarning("others may hold the lock", {{"file", lock_path}});
  if (!LockWithin(fd, Duration::zero())) {
    const Holder holder = ReadHolder(fd);
    const bool is_ours = IsOfThisNamespace(holder);
    // If the holder was killed, its guardian is killing what it left behind, which takes no time,
    // unless a process cannot be killed: one that waits for a file system that is away.
    const bool is_gone = is_ours && holder.process > 0 && IsGone(holder.process);
    const bool is_used = !is_gone && IsHeldByRun(fd);  // else somebody asks whether it is
    if (is_used || !LockWithin(fd, patience)) {
      close(fd);
      return absl::AbortedError(
          is_gone
              ? fmt::format("work directory {} is in use by what the lockstep run of process "
                            "{}, which is gone, has left behind",
                            path, holder.process)
              : fmt::format("work directory {} is in use by another lockstep run (process {}{})",
                            path, holder.process, is_ours ? "" : " of another container"));
    }
  }
  const std::string pid = fmt::format("{} {}", getpid(), PidNamespace());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    close(fd);
    return absl::FailedPreconditionError(
        fmt::format("cannot write {}: {}", lock_path, std::strerror(errno)));
  }
  return WorkDir(path, fd);
}

absl::StatusOr<WorkDir> WorkDir::Open(const std::string& asked, const std::string& job,
                                      Duration patience) {
  if (!asked.empty()) {
    absl::StatusOr<WorkDir> dir = Lock(asked, patience);
    if (!absl::IsAborted(dir.status())) return dir;
    return absl::FailedPreconditionError(
        fmt::format("{}: choose another one with --work-dir", std::string(dir.status().message())));
  }
  std::string skipped;
  for (int i = 1; i <= kMostRuns; ++i) {
    // No job's name has a dot, so no folder is another job's too.
    const std::string path = fmt::format("runs/{}{}", job, i == 1 ? "" : fmt::format(".{}", i));
    absl::StatusOr<WorkDir> dir = Lock(path, patience);
    const bool in_use = absl::IsAborted(dir.status());
    if (!dir.ok() && !in_use) return dir;
    if (dir.ok() && !dir->HasSucceeded()) {
      dir->skipped_ = std::move(skipped);
      return dir;
    }
    if (skipped.empty()) {
      skipped = in_use ? fmt::format("{} is in use by another run", path)
                       : fmt::format("the job in {} has succeeded", path);
    }
  }
  return absl::FailedPreconditionError(
      fmt::format("runs/{} and {} others are in use or done: choose another folder with --work-dir",
                  job, kMostRuns));
}

bool WorkDir::HasSucceeded() const {
  const nlohmann::json report = ReadReport(path_);
  return report.is_object() && report.contains("state") && report["state"] == "Succeeded";
}

absl::Status WorkDir::WriteReport(const std::string& json) const {
  return ReplaceFile(path_ + kReport, json + '\n', kFileMode);
}

void WorkDir::RemoveReport() const {
  RemoveFile(path_ + kReport);
}

absl::Status WorkDir::WriteView(const std::string& json) const {
  return ReplaceFile(path_ + kView, json + '\n', kViewMode);
}

nlohmann::json WorkDir::ReadView(const std::string& path) {
  return ReadJson(path + kView);
}

std::optional<Time> WorkDir::ViewWrittenAt(const std::string& path) {
  const Descriptor view = OpenOwnToRead(path + kView);
  struct stat status{};
  if (view.fd() < 0 || ::fstat(view.fd(), &status) != 0) return std::nullopt;
  return WrittenAt(status);
}

nlohmann::json WorkDir::ReadReport(const std::string& path) {
  return ReadJson(path + kReport);
}

// A run writes its process id into the lock when it starts, and nothing later.
std::optional<Time> WorkDir::LastStart(const std::string& path) {
  const Descriptor lock = OpenOwnToRead(path + kLock);
  struct stat status{};
  if (lock.fd() < 0 || ::fstat(lock.fd(), &status) != 0) return std::nullopt;
  if (status.st_uid != ::geteuid() && status.st_uid != 0) return std::nullopt;
  return WrittenAt(status);
}

absl::Status WorkDir::WriteMetricsAddresses(
    const std::map<std::string, std::string>& addresses) const {
  return ReplaceFile(path_ + kMetrics, nlohmann::json(addresses).dump() + '\n', kFileMode);
}

void WorkDir::RemoveMetricsAddresses() const {
  RemoveFile(path_ + kMetrics);
}

// A run that was killed leaves the file, and its addresses may be another's by now. The lock alone
// tells: the process that holds it may be one of a container, whose numbers are not ours.
absl::StatusOr<std::map<std::string, std::string>> WorkDir::ReadMetricsAddresses(
    const std::string& path) {
  const Descriptor lock = OpenOwnToRead(path + kLock);
  const std::string text = ReadOwn(path + kMetrics, kMostJson);
  if (text.empty() || lock.fd() < 0 || !IsHeldByRun(lock.fd())) {
    return absl::FailedPreconditionError(fmt::format("no lockstep run uses {} now", path));
  }
  std::map<std::string, std::string> addresses;
  const nlohmann::json json = ParseShallowJson(text, kDeepestJson);
  for (const auto& [replica, address] : json.items()) {
    if (address.is_string()) addresses[replica] = address;
  }
  return addresses;
}

}  // namespace lockstep::cli
