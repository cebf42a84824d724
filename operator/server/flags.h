// What lockstep-operator is told on its command line, with the names that Kubeflow's users know.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lockstep::server {

struct Flags {
  std::string kubeconfig;  // empty: in a pod its service account, else as kubectl finds one
  std::string metrics_bind_address = ":8080";       // "0": none
  std::string health_probe_bind_address = ":8081";  // "0": none
  bool leader_elect = true;
  std::string leader_election_namespace;  // empty: the pod's own, else the context's
  std::string leader_election_name = "lockstep-operator";  // of the Lease
  std::vector<std::string> namespaces;                     // each once; none: all
  int controller_threads = 16;
  double kube_api_qps = 0;          // 0: no limit of our own
  int kube_api_burst = 0;           // 0: as many as a second's
  std::string gang_scheduler_name;  // empty: none
  bool kueue = false;
  bool watch_nodes = false;
  bool poll_progress = true;
  bool job_tokens = true;
  std::string token_key_secret = "lockstep-operator-key";  // in the operator's own namespace
  bool network_policies = true;
  std::string scraper_namespace = "monitoring";  // "0": none
  double settling_seconds = 10;
  std::string trainer_image;  // ParseFlags: the one of the same version
  std::string log_level = "info";
};

// Fills `flags`. An exit code means that the program ends here: --help, --version or a bad value,
// about which the user has been told.
std::optional<int> ParseFlags(int argc, const char* const* argv, Flags& flags);

}  // namespace lockstep::server
