// One of several processes leads, by a coordination.k8s.io/v1 Lease, as client-go's leaderelection
// does it: times are judged by this process's monotonic clock since it last saw the lease change.
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

// Everything passed by reference outlives it. The client is best one of its own: requests that wait
// behind others', or longer than renew_deadline, lose the lease.
class LeaderElector {
 public:
  // `on_lost` is called on a thread of the elector's, at most once, when the lease could not be
  // renewed within renew_deadline (were the renewal still under way) or another has it: whoever led
  // must not write any more and exits. Others wait lease_duration from the last renewal they saw,
  // which is later.
  LeaderElector(Client& client, const Clock& clock, LeaderElectionOptions options,
                std::function<void(const std::string& reason)> on_lost);
  ~LeaderElector();  // without giving the lease up
  LeaderElector(const LeaderElector&) = delete;
  LeaderElector& operator=(const LeaderElector&) = delete;

  // Blocks until this process leads and renews from then on; Cancelled if stopped before.
  absl::Status Acquire(std::stop_token stop);
  bool IsLeader() const;
  // Stops renewing and gives the lease up, so that another candidate need not wait it out.
  void Release();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::kube
