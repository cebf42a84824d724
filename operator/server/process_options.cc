#include "operator/server/process_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <random>
#include <string>

#include "base/cluster_domain.h"
#include "base/read_file.h"

namespace lockstep::server {
namespace {

std::string HostName() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "lockstep-operator";
}

// A restarted pod keeps its name, but must not mistake its predecessor's lease for its own.
std::string MakeIdentity() {
  std::random_device random;
  return fmt::format("{}_{:08x}{:08x}", HostName(), random(), random());
}

// Outside a pod the operator does not know the domain of the cluster that it serves.
std::string ClusterDomainOf(const Flags& flags, const kube::RestConfig& cluster) {
  if (!flags.cluster_domain.empty()) return flags.cluster_domain == "0" ? "" : flags.cluster_domain;
  if (cluster.pod_namespace.empty()) return "";
  return ClusterDomainIn(ReadFile("/etc/resolv.conf", "the resolver's configuration").value_or(""));
}

}  // namespace

controller::JobControllerOptions ControllerOptions(const Flags& flags,
                                                   const kube::RestConfig& cluster,
                                                   controller::JobTokens* tokens,
                                                   controller::ProgressReports& reports,
                                                   metrics::OperatorMetrics& metrics) {
  controller::JobControllerOptions options;
  if (!flags.progress_url.empty()) options.reports = &reports;
  options.settings.progress_url = flags.progress_url;
  options.namespaces = flags.namespaces;
  options.tokens = tokens;
  options.settings.network_policies = flags.network_policies;
  if (flags.poll_progress) options.settings.operator_namespace = cluster.pod_namespace;
  if (flags.scraper_namespace != "0") options.settings.scraper_namespace = flags.scraper_namespace;
  options.workers = flags.controller_threads;
  options.instance = HostName();
  options.settings.trainer_images = {flags.trainer_image, flags.trainer_gpu_image};
  options.settings.gang_scheduler_name = flags.gang_scheduler_name;
  options.settings.kueue = flags.kueue;
  options.settings.cluster_domain = ClusterDomainOf(flags, cluster);
  options.settings.kubeflow_labels = flags.kubeflow_labels;
  options.settings.watch_nodes = flags.watch_nodes;
  options.settings.poll_progress = flags.poll_progress;
  options.settings.settling =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(flags.settling_seconds));
  options.queue_observer = &metrics;
  options.on_job_change = [&metrics](const api::TrainingJob* before,
                                     const api::TrainingJob& after) {
    metrics.OnJobChange(before, after);
  };
  return options;
}

kube::LeaderElectionOptions ElectionOptions(const Flags& flags, const kube::RestConfig& cluster) {
  kube::LeaderElectionOptions options;
  options.lease = {flags.leader_election_namespace.empty() ? cluster.namespace_name
                                                           : flags.leader_election_namespace,
                   flags.leader_election_name};
  options.identity = MakeIdentity();
  return options;
}

}  // namespace lockstep::server
