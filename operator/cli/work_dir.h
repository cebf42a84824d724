// The folder of one run: volumes, logs, the report of how it ended, and a lock that keeps a second
// run out.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::cli {

class WorkDir {
 public:
  // `asked` is --work-dir; in use: FailedPrecondition, which names the process. Empty: the first of
  // runs/<job>, runs/<job>-2, … that is not in use and whose job has not succeeded, so that a job
  // that was cut short goes on from its checkpoint and one that is done starts afresh.
  static absl::StatusOr<WorkDir> Open(const std::string& asked, const std::string& job);
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&&) = delete;

  const std::string& path() const { return path_; }    // absolute
  const std::string& shown() const { return shown_; }  // as a user would write it
  // Why runs/<job> was passed over; empty: it was not.
  const std::string& skipped() const { return skipped_; }

  // report.json: what a run printed at its end. A run that begins takes the last one's away.
  absl::Status WriteReport(const std::string& json) const;
  void RemoveReport() const;

 private:
  WorkDir(std::string shown, int lock_fd);
  static absl::StatusOr<WorkDir> Lock(const std::string& path);
  bool HasSucceeded() const;

  std::string shown_, path_, skipped_;
  int lock_fd_ = -1;
};

}  // namespace lockstep::cli
