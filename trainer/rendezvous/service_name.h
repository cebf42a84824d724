// Makes the DNS names of pods behind a Service ("mnist-worker-0.mnist.default.svc") absolute.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

// Returns `host` with the cluster's domain and a trailing dot if it ends in ".svc" and the search
// list of `resolv_conf` (the text of an /etc/resolv.conf as a kubelet writes it) has "svc.DOMAIN";
// otherwise returns `host` unchanged. An absolute name takes one query to the cluster's own DNS
// server. A relative one with fewer than five dots is tried with every search domain, and while the
// pod has no address, the last query goes to servers outside the cluster, which may take seconds to
// answer or never do.
std::string AbsoluteServiceName(const std::string& host, std::string_view resolv_conf);

// The same, using this machine's /etc/resolv.conf. If it cannot be read, returns `host` unchanged.
std::string AbsoluteServiceName(const std::string& host);

}  // namespace lockstep::train
