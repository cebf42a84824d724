// All of checkpoints' access to the disk, so that tests can drop writes, fill the disk and crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// The most bytes of a JSON file beside the tensors. The largest repeats the layers of a job of at
// most 1.5 MiB, indented.
inline constexpr std::uint64_t kMostJsonBytes = std::uint64_t{16} << 20U;

// Returns the error of ReadFile for a file of more than `most` bytes.
absl::Status TooManyBytes(const std::string& path, std::uint64_t bytes, std::uint64_t most);

// Thread-safe. Errors name the path and the system's reason. NotFound: there is no such file.
// FailedPrecondition: the path is of another kind, such as a file where a folder is expected, or
// cannot be one, such as a name that is too long.
// ResourceExhausted: the disk is full. PermissionDenied: the disk is read-only or access is denied.
// Unavailable: any other error of the system, such as an I/O error.
class FileSystem {
 public:
  enum class Kind { kNothing, kFile, kFolder };

  virtual ~FileSystem() = default;
  // What is at the path. A link counts as a folder if it leads to one, else as a file; whatever
  // else is no folder counts as a file, too. Needs no right to list the folder that it is in.
  virtual absl::StatusOr<Kind> KindOf(const std::string& path) = 0;
  // Creates the folder and its missing parents. They are durable when it returns.
  virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // Creates one folder. AlreadyExists: it exists. Durable after SyncDirectory of its parent.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;
  // Creates, writes, fsyncs and closes the file. Removes first whatever has its name, and follows
  // no link there: see CreateAnew. Its name is durable after SyncDirectory. FailedPrecondition: the
  // path is a folder. AlreadyExists: somebody creates it again and again.
  virtual absl::Status WriteFile(const std::string& path,
                                 const std::vector<std::span<const std::byte>>& pieces) = 0;
  // Reads the whole file into memory, if it has at most `most` bytes. DataLoss: it has more, and
  // none were read; or the path is a folder, a pipe, a socket or a device, or cannot be a file's.
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) = 0;
  // Replaces `to` if it exists. Durable after SyncDirectory of both folders. FailedPrecondition:
  // `from` is a file, and `to` a folder; or CannotRename.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // OK without an effect if the folder cannot be synced: it may not be read, or is of an object
  // store.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Returns names, not paths, in no particular order.
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // Removes a file or a folder with its content. OK if there is none.
  virtual absl::Status RemoveRecursively(const std::string& path) = 0;
};

// Returns the error of a call of the system that has failed with this errno, with the codes above.
// `action` is what could not be done to the path: "write".
absl::Status FileError(int error, const char* action, const std::string& path);

// Returns the error of a rename to the path, which the file system does not know with this errno:
// FailedPrecondition, because no later try can succeed. Names the folder of the path.
absl::Status CannotRename(int error, const std::string& path);

FileSystem& RealFileSystem();

}  // namespace lockstep::train
