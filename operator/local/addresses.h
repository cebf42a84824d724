// Addresses of replicas on one machine: a loopback address and a port each, both unique among all
// runs on this machine. A port alone would suffice for programs that bind all addresses
// (TensorFlow), an address alone for programs that bind a well-known port (metrics).
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/controller/state/address.h"

namespace lockstep::local {

// Ports outside the kernel's ephemeral range, [first, last].
struct PortRange {
  int first = 0, last = 0;
  bool operator==(const PortRange&) const = default;
};

// Returns the wider of the ranges directly below and above the ephemeral range: at most 10,000
// ports, the lower range not below port 10000. If both have fewer than 1,000, returns 20000 to
// 29999, which may overlap (each port is tried before use). Pure.
PortRange ReservablePorts(PortRange ephemeral);

// Returns the folder of this user's locks and links: `runtime`/lockstep, else
// `home`/.cache/lockstep/addresses, which no other user can create first. If neither is writable,
// returns /tmp/lockstep-<uid>; Open fails if another user has created that. Either may be null.
std::string LockFolder(const char* runtime, const char* home);

// Makes the folder, for this user alone, and those above it. FailedPrecondition: it cannot be made,
// or belongs to another user.
absl::Status MakePrivateFolder(const std::string& path);
// Returns true if the path is a folder of this user, and no link to one.
bool IsOwnFolder(const std::string& path);

// Thread-safe. An address is reserved on first use, by a locked file in `lock_dir` and, for those
// whose files are elsewhere, by a UDP socket that is bound to it, until this object or the process
// ends.
class LocalAddresses final : public controller::Addresses {
 public:
  // FailedPrecondition if `lock_dir` cannot be created or belongs to another user.
  static absl::StatusOr<std::unique_ptr<LocalAddresses>> Open(std::string lock_dir,
                                                              PortRange ports);
  // Uses LockFolder of $XDG_RUNTIME_DIR and $HOME, and this machine's port range.
  static absl::StatusOr<std::unique_ptr<LocalAddresses>> OpenDefault();
  ~LocalAddresses() override;
  LocalAddresses(const LocalAddresses&) = delete;
  LocalAddresses& operator=(const LocalAddresses&) = delete;

  // Reserves the addresses of all replicas. ResourceExhausted: this process may not open that many
  // files, two for each, or no port is free.
  absl::Status ReserveAll(const api::TrainingJob& job) const;
  // Requires: ReserveAll has reserved it, or can.
  controller::Address Of(const api::TrainingJob& job, api::Role role, int index) const override;
  // Returns the address for "namespace/pod": the one that Of returns for that pod's replica.
  controller::Address OfPod(const std::string& pod) const;
  const std::string& lock_dir() const { return lock_dir_; }
  // Returns the hosts of all that are reserved.
  std::vector<std::string> Hosts() const;

 private:
  struct Reservation {
    controller::Address address;
    int lock_fd = -1, guard_fd = -1;
  };

  LocalAddresses(std::string lock_dir, PortRange ports);
  absl::StatusOr<Reservation> Reserve() const;
  absl::StatusOr<controller::Address> Find(const std::string& pod) const;

  const std::string lock_dir_;
  const PortRange ports_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Reservation> reservations_;
  mutable int next_slot_ = 0;  // where the next search starts
};

}  // namespace lockstep::local
