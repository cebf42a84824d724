// Reads the metrics of a job's pods: of a cluster through its API server, of `lockstep run` on this
// machine.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "base/clock.h"
#include "operator/cli/top/rank_metrics.h"
#include "operator/kube/rest/rest_client.h"

namespace lockstep::cli {

struct UnreadPod {
  std::string replica;  // "worker-1"
  absl::Status why;
};

struct PodsRead {
  std::vector<RankMetrics> ranks;  // by their numbers
  std::vector<UnreadPod> unread;   // by their replicas
  Duration took{};                 // to read them, without the time to list them
};

// Reads those of the job's `pods` that run and train, several at a time, each for at most 2 s.
// Those that have not answered when `most` has passed are unread.
PodsRead ReadTrainerPods(kube::RestClient& client, const api::TrainingJob& job,
                         const std::vector<kube::Object>& pods, Duration most);

// Reads replicas at their addresses: "worker-0" at "127.77.0.1:8080".
PodsRead ReadTrainerPods(const std::map<std::string, std::string>& addresses, Duration most);

}  // namespace lockstep::cli
