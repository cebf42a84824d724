// What is asked of the operating system about a connection's address and socket. Thread-safe.
#pragma once

#include <string>

namespace lockstep::kube {

// AF_INET or AF_INET6 for a literal address, AF_UNSPEC for a name.
int AddressFamily(const std::string& host);

// Has the kernel probe the peer of a TCP socket. A peer that answers no probes is given up after 60
// seconds, as is one that takes no data.
void SetProbes(int socket);

}  // namespace lockstep::kube
