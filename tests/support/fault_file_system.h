// An in-memory file system that can fail, fill up and lose power.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trainer/checkpoint/file_system.h"

namespace lockstep::train {

// Distinguishes the present content from what would survive a crash. Names of files and folders
// that no SyncDirectory has followed may be lost or, if removed or renamed, come back, each
// independently (POSIX promises no order between them). CreateDirectories makes its folders durable
// by itself. Thread-safe.
class FaultFileSystem final : public FileSystem {
 public:
  FaultFileSystem();

  absl::StatusOr<Kind> KindOf(const std::string& path) override;
  absl::Status CreateDirectories(const std::string& path) override;
  absl::Status CreateDirectory(const std::string& path) override;
  absl::Status WriteFile(const std::string& path,
                         const std::vector<std::span<const std::byte>>& pieces) override;
  absl::StatusOr<std::string> ReadFile(const std::string& path, std::uint64_t most) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncDirectory(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) override;
  absl::Status RemoveRecursively(const std::string& path) override;

  // Returns the number of changing operations so far: all except reads: of files, of listings and
  // of kinds.
  int operations() const;
  // Loses power in the middle of operation `n` (counted from 1, starting now), which does part of
  // its work. It and every later operation fail until Reboot.
  void CrashInOperation(int n);
  // The disk is full half-way through operation `n` (counted from 1, starting now). Fails that
  // operation only, or also all later changes if `stays_full`.
  void FillDiskInOperation(int n, bool stays_full);
  // From now on, the disk has room for files of so many bytes in all, with those that it has.
  void LimitBytes(std::size_t most);
  // Fails read `n` (counted from 1, starting now), and only that one, as a bad disk does.
  void FailInRead(int n);
  // Fails SyncDirectory `n` (counted from 1, starting now), and only that one. It makes nothing
  // durable.
  void FailInSync(int n);
  // From now on, files cannot be renamed or replaced, as on some mounts of object stores.
  void RefuseRenames();
  // Returns the number of reads so far.
  int reads() const;
  // Restarts after a loss of power. `seed` decides which unsynced names have survived; kLoseAll:
  // none, kKeepAll: all, as if only the process had died. Clears all faults.
  static constexpr std::uint64_t kLoseAll = std::numeric_limits<std::uint64_t>::max();
  static constexpr std::uint64_t kKeepAll = kLoseAll - 1;
  void Reboot(std::uint64_t seed);

  // Returns the content of a file, for the test to damage.
  std::string& Content(const std::string& path);
  bool Exists(const std::string& path) const;

 private:
  struct Node {
    bool is_folder = false;
    std::string content;
    std::map<std::string, std::shared_ptr<Node>> now, durable;  // if a folder
  };
  using NodePtr = std::shared_ptr<Node>;
  enum class Fault { kNone, kCrash, kFull };

  static std::size_t BytesOf(const Node& node);
  NodePtr Find(const std::string& path) const;
  NodePtr FindParent(const std::string& path) const;
  Fault NextFault();
  bool NextReadFails();
  void SettleAfterCrash(Node& folder, std::uint64_t seed);

  mutable std::mutex mutex_;
  NodePtr root_;
  int operations_ = 0;
  int crash_at_ = 0, full_at_ = 0;  // 0: never
  std::size_t most_bytes_ = std::numeric_limits<std::size_t>::max();
  int reads_ = 0, fail_read_at_ = 0;
  int syncs_until_failure_ = 0;  // 0: none fails
  bool stays_full_ = false, crashed_ = false, refuses_renames_ = false;
  std::uint64_t choices_ = 0;  // random choices since the last Reboot
};

}  // namespace lockstep::train
