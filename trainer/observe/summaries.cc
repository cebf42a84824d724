#include "trainer/observe/summaries.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "trainer/observe/event_record.h"

namespace lockstep::train {
namespace {

double WallTime() {
  const std::chrono::duration<double> since_epoch =
      std::chrono::system_clock::now().time_since_epoch();
  return since_epoch.count();
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

absl::Status SystemError(int error, const char* action, const std::string& path) {
  const std::string message =
      fmt::format("{}: cannot {}: {}", path, action, std::generic_category().message(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  if (error == EACCES || error == EROFS) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

class EventFile final : public SummaryWriter {
 public:
  EventFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {
    Mark(EncodeVersionEvent(WallTime()));
  }
  ~EventFile() override {
    Flush().IgnoreError();  // callers that need the status call Flush
    ::close(fd_);
  }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void Begin(std::int64_t step) override { Mark(EncodeStartEvent(WallTime(), step)); }

  void Scalar(const std::string& tag, double value, std::int64_t step) override {
    buffer_ += FrameRecord(EncodeScalarEvent(WallTime(), step, tag, static_cast<float>(value)));
  }

  absl::Status Flush() override {
    std::string_view rest = buffer_;
    while (!rest.empty()) {
      const ssize_t written = ::write(fd_, rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return Drop(errno);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
    size_ += static_cast<off_t>(buffer_.size());
    buffer_.clear();
    marks_.clear();
    return absl::OkStatus();
  }

 private:
  // Adds a record without which later ones are misread. So it is written again if it is dropped.
  void Mark(const std::string& event) {
    const std::string record = FrameRecord(event);
    buffer_ += record;
    marks_ += record;
  }

  // Truncates a partially written record: a reader would never get past it.
  absl::Status Drop(int error) {
    buffer_ = marks_;
    if (::ftruncate(fd_, size_) != 0) return SystemError(errno, "truncate", path_);
    ::lseek(fd_, size_, SEEK_SET);
    return SystemError(error, "write", path_);
  }

  const int fd_;
  const std::string path_;
  std::string buffer_, marks_;
  off_t size_ = 0;  // of the file's whole records
};

}  // namespace

absl::StatusOr<std::unique_ptr<SummaryWriter>> SummaryWriter::Open(const std::string& directory) {
  static std::atomic<int> sequence{0};
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return SystemError(error.value(), "create the folder", directory);
  // TensorBoard recognizes event files by "tfevents"; the rest makes the name unique.
  const std::string path =
      fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", directory,
                  static_cast<std::int64_t>(WallTime()), HostName(), ::getpid(), sequence++);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return SystemError(errno, "create", path);
  auto writer = std::make_unique<EventFile>(fd, path);
  LOCKSTEP_RETURN_IF_ERROR(writer->Flush());
  return writer;
}

std::unique_ptr<SummaryWriter> OpenSummaries(const std::string& directory) {
  if (directory.empty()) return nullptr;
  auto opened = SummaryWriter::Open(directory);
  if (opened.ok()) return *std::move(opened);
  LogWarning("no TensorBoard summaries", {{"reason", std::string(opened.status().message())}});
  return nullptr;
}

}  // namespace lockstep::train
