// `lockstep status` and `lockstep logs` for a real cluster. Each returns its exit code.
#pragma once

#include <optional>
#include <string>

#include "operator/cli/cluster_access.h"

namespace lockstep::cli {

struct StatusCommandOptions {
  ClusterOptions cluster;
  std::string job;  // empty: all
  bool all_namespaces = false;
  std::optional<bool> watch;  // nullopt: if stdout is a terminal
};
int RunStatus(const StatusCommandOptions& options);

struct LogsCommandOptions {
  ClusterOptions cluster;
  std::string job, role, container;
  int index = 0;
  bool follow = false, previous = false;
  std::optional<int> tail;
};
int RunLogs(const LogsCommandOptions& options);

}  // namespace lockstep::cli
