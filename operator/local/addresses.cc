#include "operator/local/addresses.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/status.h"

namespace lockstep::local {
namespace {

constexpr int kMostPorts = 10000;
constexpr int kFewestPorts = 1000;
constexpr int kFirstPort = 10000;  // below are the ports of well-known services

// 127.77.x.y; y is never 0 or 255.
std::string HostOfSlot(int slot) {
  return fmt::format("127.77.{}.{}", slot / 250, 1 + slot % 250);
}

std::string NameOf(const api::TrainingJob& job, api::Role role, int index) {
  return fmt::format("{}/{}", job.metadata.namespace_name, controller::PodName(job, role, index));
}

// Returns the bound socket, or no descriptor if the address is in use.
absl::StatusOr<Descriptor> TryBind(int type, in_addr_t host, int port) {
  Descriptor socket(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
  if (socket.fd() < 0) return absl::ErrnoToStatus(errno, "cannot try a pod's port");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = host;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (bind(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    socket.Close();
  }
  return socket;
}

// Returns the lock, or no descriptor if another run holds it. The kernel releases it when we end.
absl::StatusOr<Descriptor> TryLock(const std::string& path) {
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.fd() < 0) {
    return absl::ErrnoToStatus(errno, fmt::format("cannot reserve a pod's port by {}", path));
  }
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) lock.Close();
  return lock;
}

PortRange EphemeralPorts() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  PortRange range{32768, 60999};
  file >> range.first >> range.last;
  return range;
}

}  // namespace

PortRange ReservablePorts(PortRange ephemeral) {
  const PortRange below{std::max(kFirstPort, ephemeral.first - kMostPorts), ephemeral.first - 1};
  const PortRange above{ephemeral.last + 1, std::min(65535, ephemeral.last + kMostPorts)};
  const auto width = [](PortRange range) { return range.last - range.first + 1; };
  const PortRange widest = width(above) > width(below) ? above : below;
  return width(widest) >= kFewestPorts ? widest : PortRange{20000, 29999};
}

std::string LockFolder(const char* runtime, const char* home) {
  const auto is_usable = [](const char* folder) {
    return folder != nullptr && access(folder, W_OK) == 0;
  };
  if (is_usable(runtime)) return fmt::format("{}/lockstep", runtime);
  if (is_usable(home)) return fmt::format("{}/.cache/lockstep/addresses", home);
  return fmt::format("/tmp/lockstep-{}", getuid());
}

absl::Status MakePrivateFolder(const std::string& path) {
  std::error_code ignored;  // then mkdir says why
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        fmt::format("cannot make {} for locks and links: {}", path, std::strerror(errno)));
  }
  if (IsOwnFolder(path)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} for locks and links is not a folder of user {}", path, getuid()));
}

bool IsOwnFolder(const std::string& path) {
  struct stat info{};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == getuid();
}

LocalAddresses::LocalAddresses(std::string lock_dir, PortRange ports)
    : lock_dir_(std::move(lock_dir)), ports_(ports) {}

absl::StatusOr<std::unique_ptr<LocalAddresses>> LocalAddresses::Open(std::string lock_dir,
                                                                     PortRange ports) {
  LOCKSTEP_RETURN_IF_ERROR(MakePrivateFolder(lock_dir));
  return std::unique_ptr<LocalAddresses>(new LocalAddresses(std::move(lock_dir), ports));
}

absl::StatusOr<std::unique_ptr<LocalAddresses>> LocalAddresses::OpenDefault() {
  return Open(LockFolder(std::getenv("XDG_RUNTIME_DIR"), std::getenv("HOME")),
              ReservablePorts(EphemeralPorts()));
}

LocalAddresses::~LocalAddresses() {
  for (const auto& [pod, reservation] : reservations_) {
    close(reservation.lock_fd);
    close(reservation.guard_fd);
  }
}

absl::Status LocalAddresses::ReserveAll(const api::TrainingJob& job) const {
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    for (int index = 0; index < replicas.replicas; ++index) {
      LOCKSTEP_RETURN_IF_ERROR(Find(NameOf(job, role, index)).status());
    }
  }
  return absl::OkStatus();
}

controller::Address LocalAddresses::Of(const api::TrainingJob& job, api::Role role,
                                       int index) const {
  return OfPod(NameOf(job, role, index));
}

controller::Address LocalAddresses::OfPod(const std::string& pod) const {
  const absl::StatusOr<controller::Address> address = Find(pod);
  LOCKSTEP_CHECK(address.ok(), "{}", std::string(address.status().message()));
  return *address;
}

std::vector<std::string> LocalAddresses::Hosts() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> hosts;
  for (const auto& [pod, reservation] : reservations_) hosts.push_back(reservation.address.host);
  return hosts;
}

absl::StatusOr<controller::Address> LocalAddresses::Find(const std::string& pod) const {
  const std::lock_guard lock(mutex_);
  const auto it = reservations_.find(pod);
  if (it != reservations_.end()) return it->second.address;
  LOCKSTEP_ASSIGN_OR_RETURN(const Reservation reserved, Reserve());
  return reservations_.emplace(pod, reserved).first->second.address;
}

absl::StatusOr<LocalAddresses::Reservation> LocalAddresses::Reserve() const {
  const int slots = ports_.last - ports_.first + 1;
  for (int tried = 0; tried < slots; ++tried) {
    const int slot = next_slot_++ % slots;
    const controller::Address address{HostOfSlot(slot), ports_.first + slot};
    const std::string path = fmt::format("{}/port-{}.lock", lock_dir_, address.port);
    // If all descriptors are in use, no other port will do.
    LOCKSTEP_ASSIGN_OR_RETURN(Descriptor lock, TryLock(path));
    if (lock.fd() < 0) continue;
    // The locks of another user lie in another folder, and so may those of this user's other
    // sessions. Pods bind TCP ports, so nobody needs the UDP port of the same number.
    LOCKSTEP_ASSIGN_OR_RETURN(Descriptor guard,
                              TryBind(SOCK_DGRAM, inet_addr(address.host.c_str()), address.port));
    if (guard.fd() < 0) continue;
    // A program that is no run may have the port. Binding all addresses fails if any address has
    // it in use.
    LOCKSTEP_ASSIGN_OR_RETURN(const Descriptor probe,
                              TryBind(SOCK_STREAM, htonl(INADDR_ANY), address.port));
    if (probe.fd() >= 0) return Reservation{address, lock.Release(), guard.Release()};
  }
  return absl::ResourceExhaustedError(fmt::format(
      "no port from {} to {} is free for the next of the pods", ports_.first, ports_.last));
}

}  // namespace lockstep::local
