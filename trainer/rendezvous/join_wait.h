// How long a Join waits, and for whom: what the leader says of missing members, since when it is
// silent, and whether DNS knows its pod. Rendezvous::Join has the rules.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "api/proto/rendezvous.pb.h"
#include "base/clock.h"
#include "trainer/rendezvous/address_watch.h"
#include "trainer/rendezvous/rendezvous_client.h"

namespace lockstep::train {

// Not thread-safe.
class JoinWait {
 public:
  // `leader`: the address HOST:PORT that is asked. Reads the options that concern waiting.
  JoinWait(std::string leader, const RendezvousClientOptions& options, const Clock& clock);

  // The timeout counts from now on.
  void Begin();

  // What the connection to the leader does. A new one is tried; a message has arrived; one that
  // only a member is sent, Waiting or Membership; the leader's list of missing members; nothing
  // more comes on it.
  void OnConnecting();
  void OnMessage();
  void OnAdmitted() { admitted_ = true; }
  void OnWaiting(proto::Waiting waiting) { waiting_ = std::move(waiting); }
  void OnSilence();
  // True if the leader has taken a Join on the latest connection. Otherwise its end is an answer:
  // the leader turns this process away.
  bool admitted() const { return admitted_; }
  // Says why the leader cannot be reached, for messages.
  void SetBrokenReason(std::string reason) { broken_reason_ = std::move(reason); }

  // Ok while the timeout has not expired. Otherwise DeadlineExceeded, which names who is missing.
  absl::Status Check();
  // Logs who is missing, at most every options.log_every, and ever more rarely while that stays as
  // it is: a pod may wait for days to be scheduled. Returns true if it has logged.
  bool LogNowAndThen();
  // "waiting for worker 1, worker 2 and 6 others".
  std::string WaitingFor() const;

 private:
  bool SomebodyIsYetToCome(SteadyTime now) const;

  const std::string leader_, leader_host_;
  const RendezvousClientOptions options_;
  const Clock& clock_;
  bool answered_ = false;                  // the present connection has brought a message
  bool admitted_ = false;                  // see admitted()
  std::optional<SteadyTime> leader_gone_;  // since when a leader that admitted this is silent
  std::string broken_reason_ = "not reached yet";
  proto::Waiting waiting_;  // the leader's latest
  SteadyTime counting_since_, last_log_;
  std::string logged_;           // last
  Duration same_again_after_{};  // from last_log_ until that may be logged again
  AddressWatch addresses_;
};

}  // namespace lockstep::train
