// Where the metrics server can listen.
#pragma once

#include <string>

namespace lockstep::train {

// `address`, unless it is one of IPv6 ("[fd00::5]:8080") and the HTTP library was built without it,
// as Debian's is: then all IPv4 addresses of the pod with the same port, with a warning. Training
// does not stop because nobody can scrape it.
std::string MetricsListenAddress(const std::string& address);

}  // namespace lockstep::train
