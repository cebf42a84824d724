// The names of pods behind a Service ("mnist-worker-0.mnist.default.svc"), made absolute.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::train {

// `host` with the cluster's domain and the root's dot, if it ends in ".svc" and the search list of
// `resolv_conf` (the text of an /etc/resolv.conf as a kubelet writes it) has "svc.DOMAIN"; else
// `host` as it is. An absolute name is one question to the cluster's own name server. A relative
// one with fewer than five dots is tried with every domain of the list, and while the pod has no
// address yet the last try goes to servers outside the cluster, which may take seconds to answer
// or never do.
std::string AbsoluteServiceName(const std::string& host, std::string_view resolv_conf);

// The same by this machine's /etc/resolv.conf. A file that cannot be read leaves `host` as it is.
std::string AbsoluteServiceName(const std::string& host);

}  // namespace lockstep::train
