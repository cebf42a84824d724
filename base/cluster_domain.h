// The DNS domain of the cluster that this process runs in.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Returns the domain, such as "cluster.local", from the text of a pod's /etc/resolv.conf, whose
// search list has "svc.<domain>"; "" if it has no such entry. Pure.
std::string ClusterDomainIn(std::string_view resolv_conf);

}  // namespace lockstep
