// Keeps strangers away from Gloo's ports. Gloo takes any caller for a peer, terminates the process
// on malformed input, and does not accept sockets from outside. So before one of Gloo's sockets
// listens, a socket filter makes the kernel drop packets from addresses that are not members'. On a
// pod network no pod can complete a connection from an address that is not its own. The proofs of
// GlooCommunicator detect a caller that has a member's address but not the job's token.
#pragma once

#include <linux/filter.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::train {

// Returns a classic BPF program for a TCP socket of this family, AF_INET or AF_INET6. It drops all
// packets except those from `addresses` and from this pod itself: its loopback and a service mesh's
// proxy. Ignores texts that are not addresses of the family.
std::vector<sock_filter> CallerProgram(int family, const std::vector<std::string>& addresses);

// While a CallerFilter exists, sockets on which its thread calls listen() get this filter; without
// addresses they get none. At most one per thread at a time.
class CallerFilter {
 public:
  explicit CallerFilter(const std::vector<std::string>& addresses);  // must outlive it
  ~CallerFilter();
  CallerFilter(const CallerFilter&) = delete;
  CallerFilter& operator=(const CallerFilter&) = delete;
  // OK, or why the kernel refused a filter, which is also logged; the socket then accepts any
  // address. There is room for about 1,200 IPv4 addresses (with net.core.optmem_max at 20 KiB).
  const absl::Status& status() const { return status_; }

  int Listen(int socket, int backlog);  // called by listen() only

 private:
  const std::vector<std::string>& addresses_;
  int family_ = AF_UNSPEC;            // of program_
  std::vector<sock_filter> program_;  // Gloo listens once per peer, always with the same program
  absl::Status status_;
};

}  // namespace lockstep::train
