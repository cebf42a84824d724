#include "trainer/rendezvous/gate/dialled_host.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <array>

namespace lockstep::train {
namespace {

// Returns the IP address that "ADDRESS:PORT" begins with, in its canonical form and without
// brackets and scope. Empty if it begins with none, or with that of all interfaces.
std::string IpOf(std::string_view host_and_port) {
  std::string_view host = host_and_port.substr(0, host_and_port.rfind(':'));
  for (const std::string_view bracket : {"[", "%5B"}) {
    if (host.starts_with(bracket)) host.remove_prefix(bracket.size());
  }
  const std::string text(host.substr(0, host.find_first_of("]%")));
  in6_addr ipv6{};
  in_addr ipv4{};
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  if (::inet_pton(AF_INET, text.c_str(), &ipv4) == 1) {
    if (ipv4.s_addr == INADDR_ANY) return "";
    ::inet_ntop(AF_INET, &ipv4, canonical.data(), canonical.size());
  } else if (::inet_pton(AF_INET6, text.c_str(), &ipv6) == 1) {
    if (IN6_IS_ADDR_UNSPECIFIED(&ipv6)) return "";
    const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&ipv6);
    ::inet_ntop(is_mapped ? AF_INET : AF_INET6, &ipv6.s6_addr[is_mapped ? 12 : 0], canonical.data(),
                canonical.size());
  }
  return canonical.data();
}

}  // namespace

std::string HostOfPeer(std::string_view peer) {
  for (const std::string_view kind : {"ipv4:", "ipv6:"}) {
    if (peer.starts_with(kind)) return IpOf(peer.substr(kind.size()));
  }
  return "";
}

bool IsMeant(std::string_view dialled, std::string_view listens_at) {
  const std::string own = IpOf(listens_at);
  return dialled.empty() || own.empty() || IpOf(fmt::format("{}:0", dialled)) == own;
}

}  // namespace lockstep::train
