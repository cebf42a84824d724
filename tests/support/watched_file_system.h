// A file system that reports accesses to its files to a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

// Calls back before a file is read or written or a folder is listed, so that a test can act as
// another process at that moment.
class WatchedFileSystem final : public FileSystem {
 public:
  explicit WatchedFileSystem(FileSystem& files) : files_(files) {}
  std::function<void(const std::string& path)> before_writing = [](const std::string&) {};
  std::function<void(const std::string& path)> before_reading = [](const std::string&) {};
  std::function<void(const std::string& path)> before_listing = [](const std::string&) {};

  absl::StatusOr<Kind> KindOf(const std::string& path) override { return files_.KindOf(path); }
  absl::Status CreateDirectories(const std::string& path) override {
    return files_.CreateDirectories(path);
  }
  absl::Status CreateDirectory(const std::string& path) override {
    return files_.CreateDirectory(path);
  }
  absl::Status WriteFile(const std::string& path,
                         const std::vector<std::span<const std::byte>>& pieces) override {
    before_writing(path);
    return files_.WriteFile(path, pieces);
  }
  absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) override {
    before_reading(path);
    return files_.ReadFile(path, most);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return files_.SyncDirectory(path);
  }
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override {
    before_listing(path);
    return files_.ListDirectory(path);
  }
  absl::Status RemoveRecursively(const std::string& path) override {
    return files_.RemoveRecursively(path);
  }

 private:
  FileSystem& files_;
};

}  // namespace lockstep::train
