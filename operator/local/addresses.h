// Addresses of replicas on one machine: a loopback address and a port each, that no other run on
// this machine has, whatever it binds. A port alone would do for programs that bind all addresses
// (TensorFlow), an address alone for those that bind a port of everyone's (metrics).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "operator/controller/children/addresses.h"

namespace lockstep::local {

// Ports that the kernel does not hand out by itself, [first, last].
struct PortRange {
  int first = 0, last = 0;
  bool operator==(const PortRange&) const = default;
};

// The widest run of at most 10,000 unprivileged ports outside the ephemeral range; where that
// leaves fewer than 1,000, some inside it (each is tried before it is given out). Pure.
PortRange ReservablePorts(PortRange ephemeral);

// Thread-safe. An address is reserved when first asked for, by a locked file under `lock_dir`, and
// given back when this object or the process ends.
class LocalAddresses final : public controller::Addresses {
 public:
  // Fails if `lock_dir` cannot be made or belongs to someone else.
  static absl::StatusOr<std::unique_ptr<LocalAddresses>> Open(std::string lock_dir,
                                                              PortRange ports);
  // In $XDG_RUNTIME_DIR/lockstep, else /tmp/lockstep-<uid>, with this machine's port range.
  static absl::StatusOr<std::unique_ptr<LocalAddresses>> OpenDefault();
  ~LocalAddresses() override;
  LocalAddresses(const LocalAddresses&) = delete;
  LocalAddresses& operator=(const LocalAddresses&) = delete;

  controller::Address Of(const api::TrainingJob& job, api::Role role, int index) const override;
  // "namespace/pod": the same address as Of gives for the replica that the pod is of.
  controller::Address OfPod(const std::string& pod) const;

 private:
  struct Reservation {
    controller::Address address;
    int lock_fd = -1;
  };

  LocalAddresses(std::string lock_dir, PortRange ports);
  Reservation Reserve() const;

  const std::string lock_dir_;
  const PortRange ports_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Reservation> reservations_;
  mutable int next_slot_ = 0;  // where the search goes on
};

}  // namespace lockstep::local
