// The only road of checkpoints to the disk, so that tests can drop writes, fill the disk and crash.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::train {

// Thread-safe. Errors name the path and the system's reason; NotFound: there is no such file;
// ResourceExhausted: the disk is full; PermissionDenied: it is read-only or somebody else's;
// Unavailable: anything else that the system reports, such as an input or output error.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Missing parents too. What it made is durable when it returns.
  virtual absl::Status CreateDirectories(const std::string& path) = 0;
  // One folder, which nobody else has made: AlreadyExists. Durable after SyncDirectory of its
  // parent.
  virtual absl::Status CreateDirectory(const std::string& path) = 0;
  // Creates or truncates, writes, fsyncs, closes. The name is durable after SyncDirectory.
  virtual absl::Status WriteFile(const std::string& path,
                                 const std::vector<std::span<const std::byte>>& pieces) = 0;
  virtual absl::StatusOr<std::string> ReadFile(const std::string& path) = 0;
  // Replaces `to` if it is there. Durable after SyncDirectory of both folders.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  virtual absl::Status SyncDirectory(const std::string& path) = 0;
  // Names, not paths, in no order.
  virtual absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) = 0;
  // Of a file or a folder; Ok if there is none.
  virtual absl::Status RemoveRecursively(const std::string& path) = 0;
};

FileSystem& RealFileSystem();

}  // namespace lockstep::train
