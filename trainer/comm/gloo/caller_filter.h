// Keeps strangers away from Gloo's ports. Gloo has a port for each peer, takes any caller for that
// peer, and does not accept sockets from outside. So before one of Gloo's sockets listens, a socket
// filter makes the kernel drop packets from addresses that are not the peer's. On a pod network no
// pod can complete a connection from an address that is not its own. The proofs of GlooCommunicator
// detect a caller that has the peer's address but not the job's token.
#pragma once

#include <linux/filter.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::train {

// Returns a classic BPF program for a TCP socket of this family, AF_INET or AF_INET6. It drops all
// packets except those from `address` and from this pod itself: its loopback and a service mesh's
// proxy. Ignores a text that is not an address of the family.
std::vector<sock_filter> CallerProgram(int family, const std::string& address);

// While a CallerFilter exists, sockets on which its thread calls listen() get this filter; with an
// empty address they get none. At most one per thread at a time.
class CallerFilter {
 public:
  explicit CallerFilter(std::string address);
  ~CallerFilter();
  CallerFilter(const CallerFilter&) = delete;
  CallerFilter& operator=(const CallerFilter&) = delete;
  // OK, or why the kernel refused a filter; the socket then accepts any address.
  const absl::Status& status() const { return status_; }

  int Listen(int socket, int backlog);  // called by listen() only

 private:
  const std::string address_;
  absl::Status status_;
};

}  // namespace lockstep::train
