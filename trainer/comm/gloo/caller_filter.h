// Keeps strangers from Gloo's ports. Gloo takes whoever connects for a peer, and ends the process
// if what comes makes no sense to it, and it can be given no sockets of ours. So the kernel is
// told, before a socket of Gloo's listens, to drop what comes from other addresses than the
// members'. On a pod network nobody can complete a connection from an address that is not its own.
// Who has a member's address but not the job's token is found out by the proofs of
// GlooCommunicator.
#pragma once

#include <linux/filter.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace lockstep::train {

// The classic BPF program for a TCP socket of this family, AF_INET or AF_INET6, that drops all
// packets but those from the addresses, and from this pod itself: its loopback, and a service
// mesh's proxy in it. Texts that are no address of the family are passed over.
std::vector<sock_filter> CallerProgram(int family, const std::vector<std::string>& addresses);

// While one lives, sockets on which this thread calls listen() are filtered so. Without addresses
// they are not. One per thread at a time.
class CallerFilter {
 public:
  explicit CallerFilter(const std::vector<std::string>& addresses);  // which outlive it
  ~CallerFilter();
  CallerFilter(const CallerFilter&) = delete;
  CallerFilter& operator=(const CallerFilter&) = delete;
  // OK, or why the kernel did not take a filter, which is logged too: it has room for some 1,200
  // addresses of IPv4, with net.core.optmem_max of 20 KiB. The socket then listens to everybody.
  const absl::Status& status() const { return status_; }

  int Listen(int socket, int backlog);  // for listen() alone

 private:
  const std::vector<std::string>& addresses_;
  absl::Status status_;
};

}  // namespace lockstep::train
