// The folder of one run: volumes, logs, the final report, and a lock that excludes other runs.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace lockstep::cli {

class WorkDir {
 public:
  // Opens and locks the folder `asked` (--work-dir); FailedPrecondition names the process if it is
  // in use. If `asked` is empty, uses the first of runs/<job>, runs/<job>.2, … that is not in use
  // and whose job has not succeeded, so that an interrupted job resumes from its checkpoint and a
  // completed one starts afresh. Waits for at most `patience` while what a run that is gone has
  // left behind holds the lock, or somebody who asks whether a run goes on.
  static absl::StatusOr<WorkDir> Open(const std::string& asked, const std::string& job,
                                      Duration patience = std::chrono::seconds(10));
  ~WorkDir();
  WorkDir(WorkDir&& other) noexcept;
  WorkDir& operator=(WorkDir&&) = delete;

  const std::string& path() const { return path_; }    // absolute
  const std::string& shown() const { return shown_; }  // as the user would write it
  // Says why runs/<job> was skipped; empty if it was not.
  const std::string& skipped() const { return skipped_; }

  // report.json holds the output of a finished run. A new run removes that of the last. Errors of
  // this and the other Write…: those of ReplaceFile.
  absl::Status WriteReport(const std::string& json) const;
  void RemoveReport() const;

  // view.json holds what others may show of the run while it goes on and afterwards. For this user
  // alone, as its logs are: it has the job, though not its programs and their variables.
  absl::Status WriteView(const std::string& json) const;
  // Returns null if there is none, or none that can be read, such as one that is nested too deep.
  static nlohmann::json ReadView(const std::string& path);
  // Returns when view.json was written; nullopt if it cannot be read.
  static std::optional<Time> ViewWrittenAt(const std::string& path);
  // Returns the object in report.json; null if there is none.
  static nlohmann::json ReadReport(const std::string& path);
  // Returns when the last run of the folder has begun; nullopt if it has been no run's of this user
  // or root: another user's files could have this one ask any address for metrics.
  static std::optional<Time> LastStart(const std::string& path);

  // metrics.json says where the replicas of the run serve their metrics, while it runs: "worker-0"
  // at "127.77.0.1:8080".
  absl::Status WriteMetricsAddresses(const std::map<std::string, std::string>& addresses) const;
  void RemoveMetricsAddresses() const;
  // FailedPrecondition: no run uses the folder now.
  static absl::StatusOr<std::map<std::string, std::string>> ReadMetricsAddresses(
      const std::string& path);

 private:
  WorkDir(std::string shown, int lock_fd);
  static absl::StatusOr<WorkDir> Lock(const std::string& path, Duration patience);
  bool HasSucceeded() const;

  std::string shown_, path_, skipped_;
  int lock_fd_ = -1;
};

}  // namespace lockstep::cli
