// Looks at jobs, of a cluster or of a run on this machine, for `top` and `ui`.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "operator/cli/top/top_text.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

// A job at one look.
struct SeenJob {
  JobTop top;  // all but `times`
  std::vector<RankMetrics> ranks;
  bool over = false;
  Duration took{};  // to read its pods
};

// How long a look may take to read pods' metrics, since a pod may not answer.
inline constexpr Duration kLookTime = std::chrono::seconds(5);

// Looks at the jobs of a namespace that use the bundled trainer: at `job`, or at those that have
// not ended if it is empty. The jobs share `most` for reading their pods, with at least 1 s for
// each: if no pod answers, a look takes `most`, or 1 s for each job if that is longer. The time to
// list jobs and pods comes on top. Pods that have not answered in time are unread.
// FailedPrecondition: `job` does not use the trainer. Other errors are those of the client.
absl::StatusOr<std::vector<SeenJob>> LookAtCluster(kube::RestClient& client,
                                                   const std::string& namespace_name,
                                                   const std::string& job,
                                                   Duration most = kLookTime);

// Looks at a job of a cluster. `pods` are the job's: reads their metrics for at most `most`, but
// reads none if the job has ended or does not use the trainer.
SeenJob LookAtJob(kube::RestClient& client, const api::TrainingJob& job,
                  const std::vector<kube::Object>& pods, Duration most);

// Looks at the run that is using a work directory. FailedPrecondition: none is now, or its job does
// not use the trainer.
absl::StatusOr<std::vector<SeenJob>> LookAtRun(const std::string& work_dir);

// Every rank's metrics at the look before, by namespace and job.
using RanksBefore = std::map<std::pair<std::string, std::string>, std::vector<RankMetrics>>;

// Sets what the ranks spent their time on since the look before, and remembers this one.
void SetTimes(std::vector<SeenJob>& jobs, RanksBefore& before);

}  // namespace lockstep::cli
