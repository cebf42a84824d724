// Elects one leader among several processes with a coordination.k8s.io/v1 Lease, like client-go's
// leaderelection: expiry is judged by this process's monotonic clock from when it saw the lease
// change.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace lockstep::kube {

inline const Kind kLeaseKind{"coordination.k8s.io", "v1", "Lease", "leases"};

struct LeaderElectionOptions {
  Key lease;
  std::string identity;  // unique among the candidates
  Duration lease_duration = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);  // below lease_duration
  Duration retry_period = std::chrono::seconds(2);
};

// All references must outlive this object. Use a separate client: requests that queue behind
// others, or take longer than renew_deadline, lose the lease.
class LeaderElector {
 public:
  // `on_lost` is called on a thread of the elector, at most once, when the lease was not renewed
  // within renew_deadline (even if a renewal is in flight) or another process has it: this process
  // must stop writing and exit. Others wait for lease_duration after the last renewal that they
  // saw, which ends later.
  LeaderElector(Client& client, const Clock& clock, LeaderElectionOptions options,
                std::function<void(const std::string& reason)> on_lost);
  ~LeaderElector();  // does not release the lease
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // Blocks until this process leads, and renews the lease from then on. Cancelled if stopped first.
  absl::Status Acquire(std::stop_token stop);
  bool IsLeader() const;
  // Stops renewing and releases the lease, so that another candidate need not wait for it to
  // expire.
  void Release();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::kube
