// A file system in memory that can fail, fill up and lose power.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

// Keeps apart what is there and what would survive a crash: names of files and folders that no
// SyncDirectory has followed may be lost or, if removed or renamed, come back, each by itself
// (POSIX promises no order between them). Thread-safe.
class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem();

  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status WriteFile(const std::string& path,
                         const std::vector<std::span<const std::byte>>& pieces) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;
  absl::Status RemoveRecursively(const std::string& path) override;

  // Changing operations so far: all but reading and listing.
  int operations() const;
  // Power is lost in the middle of operation `n` (from 1, counted from now): it has done part of
  // its work, and it and everything after it fails, until Reboot.
  void CrashInOperation(int n);
  // Operation `n` (from 1, counted from now) finds the disk full half-way, and only that one, or
  // all writes from then on.
  void FillDiskInOperation(int n, bool stays_full);
  // Read or listing `n` (from 1, counted from now) fails as a bad disk does, and only that one.
  void FailInRead(int n);
  // Reads and listings so far.
  int reads() const;
  // What is found after the loss of power. `seed` decides which unsynced names have survived;
  // kLoseAll: none has; kKeepAll: all have, as when only the process died. Clears all faults.
  static constexpr std::uint64_t kLoseAll = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kKeepAll = kLoseAll - 1;
  void Reboot(std::uint64_t seed);

  // The content of a file, to damage it.
  std::string& Content(const std::string& path);
  bool Exists(const std::string& path) const;

 private:
  struct Node {
    bool is_folder = false;
    std::string content;
    std::map<std::string, std::shared_ptr<Node>> now, durable;  // of a folder
  };
  using NodePtr = std::shared_ptr<Node>;
  enum class Fault { kNone, kCrash, kFull };

  NodePtr Find(const std::string& path) const;
  NodePtr FindParent(const std::string& path) const;
  Fault NextFault();
  bool NextReadFails();
  void SettleAfterCrash(Node& folder, std::uint64_t seed);

  mutable std::mutex mutex_;
  NodePtr root_;
  int operations_ = 0;
  int crash_at_ = 0, full_at_ = 0;  // 0: never
  int reads_ = 0, fail_read_at_ = 0;
  bool stays_full_ = false, crashed_ = false;
  std::uint64_t choices_ = 0;  // made since the last Reboot
};

}  // namespace lockstep::train
