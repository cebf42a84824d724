#include "trainer/rendezvous/identity_roster.h"

#include <cstddef>
#include <vector>

namespace lockstep::train {
namespace {

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

RosterSize SizeOf(const Identity& identity) {
  RosterSize config;
  config.workers = static_cast<int>(identity.cluster.worker.size());
  config.cluster_hash = identity.ClusterHash();
  const auto add = [&](api::Role role, const std::vector<std::string>& pods) {
    for (int index = 0; index < static_cast<int>(pods.size()); ++index) {
      const std::string& address = pods[static_cast<std::size_t>(index)];
      for (int process = 0; process < identity.processes_per_pod; ++process) {
        config.slots.push_back({std::string(api::RoleName(role)), index, process});
        config.hosts.push_back(address.substr(0, address.rfind(':')));
      }
    }
  };
  if (!identity.Traits().uses_collectives) {
    config.slots.push_back({std::string(api::RoleName(identity.LeaderRole())), 0, 0});
    config.hosts.push_back(identity.LeaderHost());
    return config;
  }
  add(api::Role::kChief, identity.cluster.chief);
  add(api::Role::kWorker, identity.cluster.worker);
  return config;
}

}  // namespace

RosterConfig RosterFor(const Identity& identity) {
  RosterConfig config;
  static_cast<RosterSize&>(config) = SizeOf(identity);
  config.job = identity.job;
  config.job_uid = identity.job_uid;
  config.token = identity.token;
  if (identity.IsResizable()) {
    config.of_size = [identity](int workers) { return SizeOf(identity.WithWorkers(workers)); };
  }
  return config;
}

std::string ListenAddress(const Identity& identity) {
  return ListenAddress(identity, identity.LeaderAddress());
}

std::string ListenAddress(const Identity& identity, const std::string& address) {
  const std::size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (!identity.pod_ip.empty()) return HostPort(identity.pod_ip, port);
  return IsLoopback(host) ? address : ":" + port;
}

}  // namespace lockstep::train
