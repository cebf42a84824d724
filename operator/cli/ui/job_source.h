// Where a page has its jobs from: a cluster, or folders of runs on this machine.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "operator/cli/cluster/job_facts.h"
#include "operator/cli/text/curve.h"
#include "operator/cli/top/looks.h"
#include "operator/cli/ui/log_window.h"
#include "operator/kube/object.h"

namespace lockstep::cli {

struct ListedJob {
  kube::Key key;  // of a run on this machine: no namespace, and the folder as the name
  api::TrainingJob job;
  std::string state;
};

struct JobLook {
  ListedJob listed;
  JobFacts facts;
  SeenJob seen;                // without the times
  std::optional<Curve> curve;  // from the run's start; nullopt: whoever looks has to keep one
};

// The log of a replica, or those of all. Not thread-safe.
class LogTail {
 public:
  virtual ~LogTail() = default;
  // Appends what has come since the last call, in any order; at first, the last lines. Returns once
  // there is no more for now, or after some seconds. Errors: what could be read is in `lines`.
  virtual absl::Status Read(std::vector<LogLine>& lines) = 0;
};

// Thread-safe.
class JobSource {
 public:
  virtual ~JobSource() = default;
  // What the page says in its head: "namespace team", "runs on this machine in runs".
  virtual std::string Name() const = 0;
  virtual absl::StatusOr<std::vector<ListedJob>> List() = 0;
  // Reads no events, which cost a cluster most, unless `events`. NotFound: the job is gone.
  virtual absl::StatusOr<JobLook> Look(const kube::Key& job, bool events) = 0;
  // `replica` is "worker-1", or empty for all. The source must outlive the tail.
  virtual std::unique_ptr<LogTail> Tail(const kube::Key& job, const std::string& replica) = 0;
};

}  // namespace lockstep::cli
