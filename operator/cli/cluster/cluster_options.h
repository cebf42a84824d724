// Which cluster a verb connects to.
#pragma once

#include <string>

namespace lockstep::cli {

// See ReachCluster. AddClusterOptions declares them.
struct ClusterOptions {
  std::string kubeconfig;      // empty: $KUBECONFIG, else ~/.kube/config
  std::string context;         // empty: the current one
  std::string namespace_name;  // empty: the context's
};

}  // namespace lockstep::cli
