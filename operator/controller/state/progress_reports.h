// What the programs of users' own images report of their training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "api/v1/job_token.h"
#include "api/v1/training_job.h"
#include "base/clock.h"

namespace lockstep::controller {

// The path, below Settings::progress_url, at which the programs of a job's attempt report: those of
// the attempt before may still run for a while. It begins with the prefix.
inline constexpr char kReportPrefix[] = "/apis/training.lockstep.dev/v1/namespaces/";
std::string ReportPath(const std::string& namespace_name, const std::string& job, int attempt);

// Returns a name of the way by which a job's programs report: another URL or token has another. It
// is no secret.
std::string ChannelOf(const std::string& progress_url, const api::JobToken& token);

// One report. What it does not say is absent.
struct ProgressReport {
  std::optional<int> percentage;  // 0 to 100
  std::optional<double> remaining_seconds, epoch, loss, accuracy, test_loss, test_accuracy,
      examples_per_second;
  std::optional<std::int64_t> step, total_steps;
  // A digest of all that it says but the time left and when it was sent: equal for equal reports.
  std::size_t digest = 0;
  bool operator==(const ProgressReport&) const = default;
};

// Returns `before` with what the report says, as of `now`. A program that counts no steps has
// finished as many of 100, or of a total that is known, as its percentage says; at 100 %, all of
// them. A step that contradicts a total which the report does not say ends that total. Pure.
api::Progress Merged(const ProgressReport& report, const std::optional<api::Progress>& before,
                     Time now);

// Returns true if the program has done all of its work.
bool ProgramReportsDone(const api::Progress& progress);

// The latest report of each job, and since when it has said the same. Thread-safe; no call blocks.
class ProgressReports {
 public:
  // Reports of a job that may come at once, and how long it takes until one more may. All of its
  // pods share them.
  static constexpr int kBurst = 5;
  static constexpr Duration kInterval = std::chrono::seconds(1);

  // Returns false if the job has reported too often; a report counts whether or not Take follows.
  bool MayReport(const std::string& job_uid, SteadyTime now);
  // The report extends the latest one or, if this process has none yet, `before`: what the job's
  // status has. Returns true if by this report, and by none before, the program has done all of its
  // work.
  bool Take(const std::string& job_uid, int attempt, const ProgressReport& report,
            const std::optional<api::Progress>& before, Time now, SteadyTime steady);

  // One start of the leading replica's program.
  struct Run {
    int attempt = 0;
    std::string pod_uid;  // empty: it has no pod
    int restarts = 0;     // by the kubelet
    bool operator==(const Run&) const = default;
  };

  struct Known {
    std::optional<api::Progress> latest;
    // Since when the reports of the run have said the same, as far as MayReport let them be read;
    // nullopt if there is none yet, or if the last one says that the program has done all its work.
    std::optional<SteadyTime> same_since;
    bool began_again = false;  // within the attempt, since Of was first called for that
    SteadyTime last_loss = SteadyTime::min();  // of any job's
    bool is_cut_off = false;  // at present no job's report may arrive, see NoteReadiness
  };
  // A run that follows another one of its attempt has reported nothing before this call.
  Known Of(const std::string& job_uid, const Run& run);
  // Reports may have been lost on this side. So no job's silence before says anything.
  void NoteLoss(SteadyTime now);
  // Records the answer to a readiness probe. A Service may send nothing to a process that is not
  // ready, so reports from that time may have been lost. Until the first call, as without a probe,
  // all reports arrive.
  void NoteReadiness(bool is_ready, SteadyTime now);
  void Forget(const std::string& job_uid);  // the job has ended or is gone

 private:
  struct Job {
    SteadyTime due;  // of the first report after the burst, less the burst
    std::optional<api::Progress> latest;
    std::optional<Run> run;  // that Of was called for
    bool began_again = false;
    int attempt = 0;                    // of the last report
    std::optional<std::size_t> digest;  // of the last report
    SteadyTime changed_at;
    bool is_done = false;
  };

  std::mutex mutex_;
  std::map<std::string, Job> jobs_;  // by uid; this and what follows is guarded by mutex_
  SteadyTime last_loss_ = SteadyTime::min();
  std::optional<bool> is_ready_;
};

}  // namespace lockstep::controller
