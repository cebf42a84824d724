// The folder of one run: volumes, logs, and a lock that keeps a second run out.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::cli {

class WorkDir {
 public:
  // `asked` is --work-dir; in use: FailedPrecondition, which names the process. Empty: runs/<job>,
  // so that the same job again goes on from its checkpoint, or while that is in use runs/<job>-2,
  // ….
  static absl::StatusOr<WorkDir> Open(const std::string& asked, const std::string& job);
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&&) = delete;

  const std::string& path() const { return path_; }    // absolute
  const std::string& shown() const { return shown_; }  // as a user would write it
  // runs/<job> was in use.
  bool is_second_choice() const { return second_choice_; }

 private:
  WorkDir(std::string shown, int lock_fd, bool second_choice);
  static absl::StatusOr<WorkDir> Lock(const std::string& path, bool second_choice);

  std::string shown_, path_;
  int lock_fd_ = -1;
  bool second_choice_ = false;
};

}  // namespace lockstep::cli
