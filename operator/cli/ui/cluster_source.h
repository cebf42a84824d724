// A cluster's jobs for a page.
#pragma once

#include <memory>
#include <string>

#include "operator/cli/cluster/cluster_access.h"
#include "operator/cli/ui/job_source.h"

namespace lockstep::cli {

// `namespace_name` is empty for all namespaces. `client` must outlive the source.
std::unique_ptr<JobSource> MakeClusterSource(kube::RestClient& client,
                                             const std::string& namespace_name);

}  // namespace lockstep::cli
