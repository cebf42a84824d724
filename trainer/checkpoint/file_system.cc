#include "trainer/checkpoint/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/new_file.h"
#include "base/status.h"

namespace lockstep::train {

absl::Status FileError(int error, const char* action, const std::string& path) {
  const std::string message =
      fmt::format("{}: cannot {}: {}", path, action, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case EISDIR:
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case ENXIO:  // a socket
      return absl::FailedPreconditionError(message);
    default:
      return absl::UnavailableError(message);
  }
}

namespace {

namespace fs = std::filesystem;

// EINVAL says of a call that has only looked up the path that it cannot be one here. After a call
// that moves bytes, it may say anything.
absl::Status PathError(int error, const char* action, const std::string& path) {
  absl::Status status = FileError(error, action, path);
  return error == EINVAL ? absl::FailedPreconditionError(status.message()) : status;
}

// Repeats a system call that a signal interrupts.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

Descriptor Open(const std::string& path, int flags) {
  return Descriptor(Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC); }));
}

// Returns the error or 0. Network file systems report failed writes here. Linux closes the file
// even on EINTR.
int CloseChecked(Descriptor file) {
  const int result = ::close(file.Release());
  return result < 0 && errno != EINTR ? errno : 0;
}

absl::Status WriteAll(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = Retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
    if (written < 0) return FileError(errno, "write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return absl::OkStatus();
}

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<Kind> KindOf(const std::string& path) override {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) return Kind::kNothing;
      return PathError(errno, "look up", path);
    }
    const bool leads_somewhere = !S_ISLNK(info.st_mode) || ::stat(path.c_str(), &info) == 0;
    return leads_somewhere && S_ISDIR(info.st_mode) ? Kind::kFolder : Kind::kFile;
  }

  absl::Status CreateDirectories(const std::string& path) override {
    const fs::path folder(path);
    std::error_code error;
    if (fs::is_directory(folder, error)) return absl::OkStatus();
    const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
    if (parent != folder) LOCKSTEP_RETURN_IF_ERROR(CreateDirectories(parent.string()));
    if (!folder.has_filename()) return absl::OkStatus();  // "a/b/" is "a/b"
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
      return PathError(errno, "create the folder", path);
    }
    if (!fs::is_directory(folder, error)) {
      return absl::FailedPreconditionError(
          fmt::format("{}: is a file, expected a folder or nothing", path));
    }
    return SyncDirectory(parent.string());
  }

  absl::Status CreateDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
    return PathError(errno, "create the folder", path);
  }

  absl::Status WriteFile(const std::string& path,
                         const std::vector<std::span<const std::byte>>& pieces) override {
    Descriptor file = CreateAnew(path, 0666);
    if (file.fd() < 0) return PathError(errno, "create", path);
    for (const auto piece : pieces) LOCKSTEP_RETURN_IF_ERROR(WriteAll(file.fd(), piece, path));
    if (Retry([&] { return ::fsync(file.fd()); }) != 0) return FileError(errno, "sync", path);
    if (const int error = CloseChecked(std::move(file)); error != 0)
      return FileError(error, "close", path);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) override {
    const Descriptor file = Open(path, O_RDONLY | O_NONBLOCK);  // a pipe must not block
    if (file.fd() < 0) {
      const absl::Status failed = PathError(errno, "open", path);
      return absl::IsFailedPrecondition(failed) ? absl::DataLossError(failed.message()) : failed;
    }
    struct stat info{};
    if (::fstat(file.fd(), &info) != 0) return FileError(errno, "stat", path);
    if (!S_ISREG(info.st_mode)) {
      return absl::DataLossError(fmt::format("{}: is not a regular file", path));
    }
    // A sparse file may say any size, which would be memory once it is read.
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    if (bytes > most) return TooManyBytes(path, bytes, most);
    std::string content(bytes, '\0');
    std::size_t filled = 0;
    while (filled < content.size()) {
      const ssize_t got = Retry(
          [&] { return ::read(file.fd(), content.data() + filled, content.size() - filled); });
      if (got < 0) return FileError(errno, "read", path);
      if (got == 0) break;
      filled += static_cast<std::size_t>(got);
    }
    content.resize(filled);
    return content;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      if (errno == ENOSYS || errno == ENOTSUP) return CannotRename(errno, to);
      return PathError(errno, fmt::format("rename to {}", to).c_str(), from);
    }
    return absl::OkStatus();
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const Descriptor folder = Open(path, O_RDONLY | O_DIRECTORY);
    // A folder may take files and yet not let people read their names: nothing can sync it then.
    if (folder.fd() < 0 && errno == EACCES) return absl::OkStatus();
    if (folder.fd() < 0) return FileError(errno, "open the folder", path);
    if (Retry([&] { return ::fsync(folder.fd()); }) == 0) return absl::OkStatus();
    // Mounts of object stores cannot sync folders.
    if (errno == EINVAL || errno == ENOTSUP || errno == ENOSYS) return absl::OkStatus();
    return FileError(errno, "sync the folder", path);
  }

  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return FileError(error.value(), "list the folder", path);
    return names;
  }

  absl::Status RemoveRecursively(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) return FileError(error.value(), "remove", path);
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status CannotRename(int error, const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return absl::FailedPreconditionError(fmt::format(
      "{}: found a file system that cannot rename files ({}), as some mounts of object stores "
      "cannot; expected one that can, because a file gets its name only when it is complete",
      folder.empty() ? "." : folder.string(), std::generic_category().message(error)));
}

absl::Status TooManyBytes(const std::string& path, std::uint64_t bytes, std::uint64_t most) {
  return absl::DataLossError(
      fmt::format("{}: found {} bytes, expected at most {}", path, bytes, most));
}

FileSystem& RealFileSystem() {
  static PosixFileSystem files;
  return files;
}

}  // namespace lockstep::train
