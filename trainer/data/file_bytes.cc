#include "trainer/data/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/digest.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

// The highest compression ratio of deflate (zlib's "technical details").
constexpr std::uint64_t kMaxInflation = 1032;

struct CloseGzip {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

// Null on failure, with errno set.
GzipFile OpenGzip(int fd) {
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return nullptr;
  GzipFile file(gzdopen(own, "rb"));
  if (file == nullptr) ::close(own);
  if (file != nullptr) gzbuffer(file.get(), 1 << 17);
  return file;
}

// Appends up to `count` inflated bytes, fewer at the end of the stream.
absl::Status ReadInflated(gzFile file, std::size_t count, const std::string& path,
                          std::vector<std::uint8_t>& out) {
  while (count > 0) {
    const auto chunk = static_cast<unsigned>(std::min<std::size_t>(count, 1u << 20));
    const std::size_t begin = out.size();
    out.resize(begin + chunk);
    const int got = gzread(file, out.data() + begin, chunk);
    out.resize(begin + static_cast<std::size_t>(std::max(got, 0)));
    int code = Z_OK;
    const int error = errno;
    const char* reason = gzerror(file, &code);
    if (got < 0 && code == Z_ERRNO) return DataFileError(error, "read", path);
    if (got < 0 || code == Z_BUF_ERROR) {
      return absl::DataLossError(
          fmt::format("{}: damaged gzip data after {} inflated bytes: {}", path, out.size(),
                      code == Z_BUF_ERROR ? "the file is cut short" : reason));
    }
    if (got == 0) break;
    count -= static_cast<std::size_t>(got);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DataFileError(int error, const char* action, const std::string& path) {
  const std::string message =
      fmt::format("{}: cannot {}: {}", path, action, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EAGAIN:
    case EBUSY:
    case ECONNABORTED:
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case EINTR:
    case EIO:
    case EKEYEXPIRED:  // a network volume's ticket
    case EMFILE:
    case ENETDOWN:
    case ENETUNREACH:
    case ENFILE:
    case ENOBUFS:
    case ENOLCK:
    case ENOMEM:
    case ENOTCONN:  // a mount by FUSE whose program has ended
    case EPIPE:
    case EREMOTEIO:
    case ESHUTDOWN:
    case ESTALE:
    case ETIMEDOUT:
      return absl::UnavailableError(message);
    default:  // also EACCES and EPERM
      return absl::DataLossError(message);
  }
}

absl::StatusOr<std::uint64_t> StampOfFile(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return DataFileError(errno, "stat", path);
  return Digest(
      fmt::format("{};{};{}.{:09}", path, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec));
}

struct FileBytes::Opened {
  Descriptor file;
  std::uint64_t size = 0;
  std::array<std::uint8_t, kHead> begin{};
  std::size_t begin_size = 0;

  std::span<const std::uint8_t> head() const { return std::span(begin).first(begin_size); }
  bool is_gzip() const { return begin_size >= 2 && begin[0] == 0x1F && begin[1] == 0x8B; }
};

absl::StatusOr<FileBytes::Opened> FileBytes::OpenFile(const std::string& path) {
  // A pipe without a writer must not block.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return DataFileError(errno, "open", path);
  struct stat info{};
  if (::fstat(file.fd(), &info) != 0) return DataFileError(errno, "stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::DataLossError(fmt::format("{}: not a regular file", path));
  }
  Opened opened{.file = std::move(file), .size = static_cast<std::uint64_t>(info.st_size)};
  const ssize_t got = ::pread(opened.file.fd(), opened.begin.data(), opened.begin.size(), 0);
  if (got < 0) return DataFileError(errno, "read", path);
  opened.begin_size = static_cast<std::size_t>(got);
  return opened;
}

absl::StatusOr<FileBytes> FileBytes::OpenWhole(const std::string& path, IsPlain is_plain) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Opened opened, OpenFile(path));
  if (!opened.is_gzip() || (is_plain != nullptr && is_plain(opened.head()))) {
    return Map(opened.file.fd(), static_cast<std::size_t>(opened.size), path);
  }
  const GzipFile file = OpenGzip(opened.file.fd());
  if (file == nullptr) return DataFileError(errno, "open", path);
  FileBytes result;
  LOCKSTEP_RETURN_IF_ERROR(
      ReadInflated(file.get(), std::size_t{kMaxInflated} + 1, path, result.held_));
  if (result.held_.size() > kMaxInflated) {
    return absl::DataLossError(fmt::format(
        "{}: gzip data of more than {} bytes, expected less; store it uncompressed or in parts",
        path, kMaxInflated));
  }
  result.held_.shrink_to_fit();
  result.bytes_ = result.held_;
  return result;
}

absl::StatusOr<FileBytes> FileBytes::OpenHead(const std::string& path, std::size_t most) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Opened opened, OpenFile(path));
  if (!opened.is_gzip()) {
    const std::uint64_t size = std::min<std::uint64_t>(opened.size, most);
    return Map(opened.file.fd(), static_cast<std::size_t>(size), path);
  }
  const GzipFile file = OpenGzip(opened.file.fd());
  if (file == nullptr) return DataFileError(errno, "open", path);
  FileBytes result;
  LOCKSTEP_RETURN_IF_ERROR(ReadInflated(file.get(), most, path, result.held_));
  result.bytes_ = result.held_;
  return result;
}

absl::StatusOr<FileBytes> FileBytes::ReadSmall(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Opened opened, OpenFile(path));
  if (opened.size > kMaxSmall) {
    return absl::DataLossError(
        fmt::format("{}: found {} bytes, expected at most {}", path, opened.size, kMaxSmall));
  }
  FileBytes result;
  result.held_.resize(static_cast<std::size_t>(opened.size));
  std::size_t done = 0;
  while (done < result.held_.size()) {
    const ssize_t got = ::pread(opened.file.fd(), result.held_.data() + done,
                                result.held_.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DataFileError(errno, "read", path);
    if (got == 0) {
      return absl::UnavailableError(
          fmt::format("{}: cut short while it was read: found {} bytes, "
                      "expected {}",
                      path, done, opened.size));
    }
    done += static_cast<std::size_t>(got);
  }
  result.bytes_ = result.held_;
  return result;
}

absl::StatusOr<FileBytes> FileBytes::Open(const std::string& path, std::size_t header_bytes,
                                          SizeOf size_of) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Opened opened, OpenFile(path));
  if (opened.is_gzip()) return Inflate(opened, path, header_bytes, size_of);
  LOCKSTEP_ASSIGN_OR_RETURN(FileBytes result,
                            Map(opened.file.fd(), static_cast<std::size_t>(opened.size), path));
  const auto header = result.bytes_.first(std::min(header_bytes, result.bytes_.size()));
  LOCKSTEP_RETURN_IF_ERROR(size_of(header, path).status());
  return result;
}

absl::StatusOr<FileBytes> FileBytes::Map(int fd, std::size_t size, const std::string& path) {
  FileBytes result;
  if (size == 0) return result;  // an empty range cannot be mapped
  result.mapping_ = MappedFile::Map(fd, size, path);
  if (result.mapping_ == nullptr) return DataFileError(errno, "map", path);
  result.bytes_ = result.mapping_->bytes();
  return result;
}

absl::StatusOr<FileBytes> FileBytes::Inflate(const Opened& opened, const std::string& path,
                                             std::size_t header_bytes, SizeOf size_of) {
  const GzipFile file = OpenGzip(opened.file.fd());
  if (file == nullptr) return DataFileError(errno, "open", path);
  FileBytes result;
  LOCKSTEP_RETURN_IF_ERROR(ReadInflated(file.get(), header_bytes, path, result.held_));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t expected, size_of(result.held_, path));
  if (expected / kMaxInflation > opened.size) {
    return absl::DataLossError(
        fmt::format("{}: {} bytes of gzip data cannot hold the {} bytes that its header announces",
                    path, opened.size, expected));
  }
  // Read one byte more than expected, to detect surplus data and to make zlib check the CRC.
  const std::size_t rest = static_cast<std::size_t>(expected) + 1 -
                           std::min(result.held_.size(), static_cast<std::size_t>(expected));
  result.held_.reserve(static_cast<std::size_t>(expected) + 1);
  LOCKSTEP_RETURN_IF_ERROR(ReadInflated(file.get(), rest, path, result.held_));
  result.bytes_ = result.held_;
  return result;
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : mapping_(std::move(other.mapping_)),
      held_(std::move(other.held_)),
      bytes_(std::exchange(other.bytes_, {})) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(held_, other.held_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace lockstep::train
