#include "trainer/comm/shm/shared_segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "trainer/core/available_memory.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kHeaderBytes = SharedSegment::kHeaderBytes;
constexpr std::size_t kTokenChars = 32;
// Peers rely on these seals: otherwise the creator could truncate a segment that they have mapped.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string ErrnoText() {
  return std::strerror(errno);
}

// Linux has it since 6.3: vm.memfd_noexec = 2, which hardened nodes have, refuses files without it.
constexpr unsigned kNoExecSeal = 8;

// A file in memory, or -1 with errno set.
int OpenMemory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  const int fd = memfd_create("lockstep", kFlags | kNoExecSeal);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create("lockstep", kFlags);  // an older kernel
}

absl::StatusOr<std::string> RandomToken() {
  std::array<unsigned char, kTokenChars / 2> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return absl::InternalError(fmt::format("shared memory: getrandom: {}", ErrnoText()));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool ParseInt(std::string_view text, int& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status CheckPeerFile(int fd, std::size_t bytes, const std::string& path) {
  struct stat info{};
  if (fstat(fd, &info) != 0)
    return absl::NotFoundError(fmt::format("shared memory {}: {}", path, ErrnoText()));
  if (info.st_size != static_cast<off_t>(kHeaderBytes + bytes))
    return absl::FailedPreconditionError(
        fmt::format("shared memory {}: it has {} bytes, expected {}", path, info.st_size,
                    kHeaderBytes + bytes));
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return absl::FailedPreconditionError(
        fmt::format("shared memory {}: its size is not sealed", path));
  return absl::OkStatus();
}

}  // namespace

std::string SharedSegment::Locator::ToString() const {
  return fmt::format("{}:{}:{}", pid, fd, token);
}

absl::StatusOr<SharedSegment::Locator> SharedSegment::Locator::Parse(const std::string& text) {
  const std::string_view view = text;
  const std::size_t first = view.find(':');
  const std::size_t second = first == view.npos ? first : view.find(':', first + 1);
  Locator locator;
  if (second == view.npos || !ParseInt(view.substr(0, first), locator.pid) ||
      !ParseInt(view.substr(first + 1, second - first - 1), locator.fd) || locator.pid <= 0 ||
      locator.fd < 0 || view.size() - second - 1 != kTokenChars)
    return absl::InvalidArgumentError(
        fmt::format("shared memory: locator is '{}', expected pid:fd:token", text));
  locator.token = std::string(view.substr(second + 1));
  return locator;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(std::size_t bytes,
                                                                     bool reserves) {
  std::unique_ptr<SharedSegment> segment(new SharedSegment);
  LOCKSTEP_RETURN_IF_ERROR(segment->Allocate(bytes, reserves));
  LOCKSTEP_RETURN_IF_ERROR(segment->Map(nullptr));
  std::memcpy(segment->base_, segment->locator_.token.data(), kTokenChars);
  return segment;
}

absl::Status SharedSegment::Reserve() {
  if (is_reserved_) return absl::OkStatus();
  // Without this check posix_fallocate would continue until the kernel kills a process.
  if (const std::uint64_t available = AvailableMemory(); size_ > available)
    return absl::ResourceExhaustedError(
        fmt::format("shared memory: {} bytes are wanted, {} are available", size_, available));
  const int error = posix_fallocate(fd_, 0, static_cast<off_t>(kHeaderBytes + size_));
  if (error != 0)
    return absl::ResourceExhaustedError(
        fmt::format("shared memory: no room for {} bytes: {}", size_, std::strerror(error)));
  is_reserved_ = true;
  return absl::OkStatus();
}

absl::Status SharedSegment::Allocate(std::size_t bytes, bool reserves) {
  LOCKSTEP_ASSIGN_OR_RETURN(locator_.token, RandomToken());
  size_ = bytes;
  fd_ = OpenMemory();
  if (fd_ < 0)
    return absl::UnimplementedError(fmt::format("shared memory: memfd_create: {}", ErrnoText()));
  locator_.pid = getpid();
  locator_.fd = fd_;
  if (reserves) {
    LOCKSTEP_RETURN_IF_ERROR(Reserve());
  } else if (ftruncate(fd_, static_cast<off_t>(kHeaderBytes + bytes)) != 0) {
    return absl::ResourceExhaustedError(
        fmt::format("shared memory: no file of {} bytes: {}", bytes, ErrnoText()));
  }
  // Only the owner may open it: /proc/<pid>/fd/<n> also checks the file's own mode.
  if (fchmod(fd_, 0600) != 0 || fcntl(fd_, F_ADD_SEALS, kSeals) != 0)
    return absl::InternalError(fmt::format("shared memory: cannot seal it: {}", ErrnoText()));
  return absl::OkStatus();
}

absl::Status SharedSegment::Map(void* at) {
  void* mapped = mmap(at, kHeaderBytes + size_, PROT_READ | PROT_WRITE,
                      MAP_SHARED | (at == nullptr ? 0 : MAP_FIXED), fd_, 0);
  if (mapped == MAP_FAILED)
    return absl::ResourceExhaustedError(
        fmt::format("shared memory: cannot map {} bytes: {}", size_, ErrnoText()));
  base_ = static_cast<std::byte*>(mapped);
  data_ = base_ + kHeaderBytes;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Attach(const Locator& locator,
                                                                     std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", locator.pid, locator.fd);
  std::unique_ptr<SharedSegment> segment(new SharedSegment);
  segment->locator_ = locator;
  segment->size_ = bytes;
  segment->fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (segment->fd_ < 0)
    return absl::NotFoundError(fmt::format("shared memory {}: {}", path, ErrnoText()));
  LOCKSTEP_RETURN_IF_ERROR(CheckPeerFile(segment->fd_, bytes, path));
  LOCKSTEP_RETURN_IF_ERROR(segment->Map(nullptr));
  if (std::memcmp(segment->base_, locator.token.data(), kTokenChars) != 0)
    return absl::FailedPreconditionError(
        fmt::format("shared memory {}: it is another segment than the one offered", path));
  close(std::exchange(segment->fd_, -1));  // the mapping stays
  return segment;
}

absl::Status SharedSegment::AttachAt(const Locator& locator, std::size_t bytes, std::byte* data) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<SharedSegment> segment, Attach(locator, bytes));
  const std::size_t mapped = kHeaderBytes + bytes;
  if (mprotect(segment->base_, mapped, PROT_READ) != 0 ||
      mremap(segment->base_, mapped, mapped, MREMAP_MAYMOVE | MREMAP_FIXED, data - kHeaderBytes) ==
          MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("shared memory: cannot move {} bytes: {}", mapped, ErrnoText()));
  }
  segment->base_ = nullptr;  // it lies elsewhere, and is the caller's
  return absl::OkStatus();
}

absl::Status SharedSegment::Replace() {
  // All ranks of a host replace their segments at the same time: with the old content still there,
  // that would double the memory of their gradients.
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kHeaderBytes,
                static_cast<off_t>(size_)) != 0)
    return absl::InternalError(
        fmt::format("shared memory: cannot free {} bytes: {}", size_, ErrnoText()));
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<SharedSegment> fresh, Create(size_, is_reserved_));
  const int old_fd = std::exchange(fd_, fresh->fd_);
  if (const absl::Status mapped = Map(base_); !mapped.ok()) {
    fd_ = old_fd;
    return mapped;
  }
  fresh->fd_ = old_fd;  // closed with `fresh`
  locator_ = fresh->locator_;
  return absl::OkStatus();
}

SharedSegment::~SharedSegment() {
  if (base_ != nullptr) munmap(base_, kHeaderBytes + size_);
  if (fd_ >= 0) close(fd_);
}

}  // namespace lockstep::train
