#include "operator/kube/rest/sockets.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace lockstep::kube {
namespace {

// 30 + 3 * 10 seconds without an answer.
constexpr int kProbeIdleSeconds = 30, kProbeSeconds = 10, kProbes = 3;
constexpr int kUnackedMilliseconds = 60'000;

}  // namespace

int AddressFamily(const std::string& host) {
  in6_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return AF_INET;
  if (inet_pton(AF_INET6, host.c_str(), &address) == 1) return AF_INET6;
  return AF_UNSPEC;
}

void SetProbes(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);  // best effort
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kProbeIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUnackedMilliseconds);
}

}  // namespace lockstep::kube
