// An operator's settings, fixed at its start.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "operator/kube/backoff.h"

namespace lockstep::controller {

// The operator's trainer images, of one version, for pods that name no image.
struct TrainerImages {
  std::string cpu;
  std::string gpu;  // of pods whose main container asks for GPUs
  auto operator<=>(const TrainerImages&) const = default;
};

// Returns those of this version, as `make images` names them.
TrainerImages DefaultTrainerImages();

struct Settings {
  TrainerImages trainer_images = DefaultTrainerImages();
  // --gang-scheduler-name: "", "volcano", "scheduler-plugins" or the schedulerName of a
  // scheduler-plugins instance.
  std::string gang_scheduler_name;
  // Jobs with a kueue.x-k8s.io/queue-name label wait for Kueue's admission.
  bool kueue = false;
  // The cluster domain, such as "cluster.local", in which the pods of jobs without the bundled
  // trainer resolve each other's bare names; empty: the domain is not known, and they cannot.
  std::string cluster_domain;
  bool kubeflow_labels = false;  // pods get Kubeflow's labels beside ours
  // Pods of jobs with `training`, or of jobs that ask for it, get their job's token.
  bool job_tokens = false;
  // The URL at which programs of users' own images report how far they are, if their job's token is
  // mounted; empty: they cannot.
  std::string progress_url;
  // Isolated jobs get a NetworkPolicy. It admits progress polls from operator_namespace, where the
  // operator's pods run, and metrics scrapes from scraper_namespace; empty: from nowhere.
  bool network_policies = false;
  std::string operator_namespace, scraper_namespace;
  // Limits the creates and deletes of one reconcile, so that the job is observed in between while
  // 10,000 pods are created.
  std::size_t most_actions = 512;
  // One reconcile starts no more creates and deletes after this time. A server that answers each of
  // them slowly would otherwise keep a worker for longer than the liveness probe accepts.
  Duration most_time = std::chrono::minutes(1);
  // After a create has failed, no create of its group (see FailedCreates) is tried for this long. A
  // delete or an update that has failed is not repeated for this long. The time doubles with each
  // further failure.
  Duration action_backoff = std::chrono::milliseconds(100);
  Duration action_backoff_limit = std::chrono::seconds(30);
  kube::BackoffPolicy ActionBackoff() const {
    return {.initial = action_backoff, .limit = action_backoff_limit};
  }
  int parallel_calls = 8;  // concurrent creates and deletes of one reconcile
  // The minimum interval between writes of progress and replica counts. Conditions are written at
  // once.
  Duration status_interval = std::chrono::seconds(10);
  // How long a change of a child that asks for no action at once may wait, so that the changes of a
  // job's many pods are looked at together.
  Duration change_hold = std::chrono::milliseconds(50);
  // How long the status write that records a worker's success may wait, so that workers that
  // succeed at almost the same time are written together.
  Duration completion_hold = std::chrono::seconds(1);
  // Limits the deferrable status writes of all jobs together: writes per second (0: unlimited), and
  // how many at once after a pause. Writes that change only counts, and first sights of new jobs,
  // have limits of their own, of the same size. While the API server is slow, writes are further
  // apart: see StatusThrottle.
  double status_rate = 50;
  int status_burst = 50;
  // The delay between restarts without progress: the first is immediate, the second waits this
  // long, and each further one doubles it.
  Duration restart_backoff = std::chrono::seconds(10);
  Duration restart_backoff_limit = std::chrono::minutes(5);
  // How long to wait after peers have ended by themselves before one of them is charged: the loss
  // that caused their end may become visible later than these ends.
  Duration settling = std::chrono::seconds(10);
  // Watches nodes, so that a silent one is known, and asks leading pods whom their groups miss. If
  // either is off, or if a pod's group reports no losses (with the user's own image, or with
  // parameter servers), the pod tolerates a silent node only for node_toleration_seconds.
  bool watch_nodes = false;
  bool poll_progress = true;
  std::int64_t node_toleration_seconds = 30;
  // A pod whose node has been silent for this long is lost, though its program may still run. It is
  // lost at once if its training group misses it too.
  Duration node_lost_after = std::chrono::minutes(2);
  // A pod that still exists this long after its grace period has no kubelet to confirm its end, so
  // it is deleted by force.
  Duration stuck_deletion = std::chrono::minutes(1);
  // How long, after training has ended, the job waits for an Evaluator that has not finished the
  // last checkpoint and shows no sign of evaluating.
  Duration evaluator_grace = std::chrono::minutes(5);
};

}  // namespace lockstep::controller
