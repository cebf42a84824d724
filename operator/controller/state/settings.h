// What an operator is told once, at its start.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace lockstep::controller {

struct Settings {
  std::string trainer_image = "lockstep-trainer:latest";  // of pods that name no image
  // --gang-scheduler-name: "", "volcano", "scheduler-plugins" or the name its scheduler runs under.
  std::string gang_scheduler_name;
  // Jobs with a kueue.x-k8s.io/queue-name label wait for Kueue's admission.
  bool kueue = false;
  // Pods of jobs with `training`, or that ask for it, get their job's token.
  bool job_tokens = false;
  // Jobs that are to be isolated get a NetworkPolicy, which lets in progress polls from the first
  // of these namespaces, where the operator's pods are, and scrapes of metrics from the second;
  // empty: from nowhere.
  bool network_policies = false;
  std::string operator_namespace, scraper_namespace;
  // Creates and deletes of one reconcile: whoever makes 10,000 pods looks at the job in between.
  std::size_t most_actions = 512;
  // After a create that failed none is tried for this long, then twice as long, and so on.
  Duration create_backoff = std::chrono::milliseconds(100);
  Duration create_backoff_limit = std::chrono::seconds(30);
  int parallel_calls = 8;  // creates and deletes of one reconcile that are under way at a time
  // Progress and replica counts are written at most this often; conditions at once.
  Duration status_interval = std::chrono::seconds(10);
  // Of all jobs together so many statuses that can wait are written a second (0: no limit), and so
  // many at once after a rest. While a write takes longer than its share, one at a time, but not
  // fewer than ten a second.
  double status_rate = 50;
  int status_burst = 50;
  // Between restarts without progress: the first is immediate, the second waits this long, and so
  // on.
  Duration restart_backoff = std::chrono::seconds(10);
  Duration restart_backoff_limit = std::chrono::minutes(5);
  // How long the members of a gang that end by themselves are looked at before one of them is
  // blamed: what took their peer away may show later than they do.
  Duration settling = std::chrono::seconds(10);
  // Nodes are watched, so that a silent one is known. Otherwise, and for pods of other images,
  // whose groups tell nothing, Kubernetes is asked to give a node up sooner.
  bool watch_nodes = false;
  std::int64_t node_toleration_seconds = 30;
  // A pod whose node has been silent this long is lost, though the program in it may still run. One
  // that its training group misses too is lost at once.
  Duration node_lost_after = std::chrono::minutes(2);
  // A pod that is still there this long after its grace period has no kubelet to confirm its end;
  // it is deleted by force.
  Duration stuck_deletion = std::chrono::minutes(1);
  // What an Evaluator gets to finish the last checkpoint once training is done.
  Duration evaluator_grace = std::chrono::minutes(5);
};

}  // namespace lockstep::controller
