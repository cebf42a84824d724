// The command line flags of lockstep-operator, named like those of Kubeflow's training operator.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::server {

struct Flags {
  std::string kubeconfig;  // empty: in a pod its service account, else kubectl's lookup
  std::string metrics_bind_address = ":8080";       // "0": disabled
  std::string health_probe_bind_address = ":8081";  // "0": disabled
  std::string progress_bind_address = "0";          // "0": programs cannot report
  std::string progress_url;  // at which pods reach it; set if and only if it is not disabled
  bool leader_elect = true;
  std::string leader_election_namespace;  // empty: the pod's own, else the context's
  std::string leader_election_name = "lockstep-operator";  // of the Lease
  std::vector<std::string> namespaces;                     // distinct; empty: all
  int controller_threads = 16;
  double kube_api_qps = 0;          // 0: no client-side limit
  int kube_api_burst = 0;           // 0: one second's worth of kube_api_qps
  std::string gang_scheduler_name;  // empty: none
  bool kueue = false;
  std::string cluster_domain;  // empty: that of the operator's own pod; "0": none
  bool kubeflow_labels = false;
  bool watch_nodes = false;
  bool poll_progress = true;
  bool job_tokens = true;
  std::string token_key_secret = "lockstep-operator-key";  // in the operator's own namespace
  bool network_policies = true;
  std::string scraper_namespace = "monitoring";  // "0": none
  double settling_seconds = 10;
  std::string trainer_image, trainer_gpu_image;  // set by ParseFlags: the images of this version
  std::string log_level = "info";
};

// Parses into `flags`. Returns an exit code if the program must exit: for --help, --version, or a
// bad value, which has been reported to the user.
std::optional<int> ParseFlags(int argc, const char* const* argv, Flags& flags);

}  // namespace lockstep::server
