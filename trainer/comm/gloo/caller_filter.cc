#include "trainer/comm/gloo/caller_filter.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::train {
namespace {

thread_local CallerFilter* current_filter = nullptr;

// This pod's own addresses: loopback, and Istio's proxy, which forwards the members' connections.
constexpr const char* kLocal[] = {"127.0.0.1", "127.0.0.6", "::1", "::6"};

using Words = std::vector<std::uint32_t>;  // an address, in host byte order

// Returns an empty vector if `address` is not of the family.
Words WordsOf(int family, const std::string& address) {
  std::array<std::uint32_t, 4> bytes{};
  if (::inet_pton(family, address.c_str(), bytes.data()) != 1) return {};
  Words words(bytes.begin(), bytes.begin() + (family == AF_INET ? 1 : 4));
  for (std::uint32_t& word : words) word = ntohl(word);
  return words;
}

// The offset of the sender's address in the packet's IP header.
std::uint32_t SenderAt(int family) {
  return static_cast<std::uint32_t>(SKF_NET_OFF) + (family == AF_INET ? 12U : 8U);
}

constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
constexpr std::uint16_t kJumpIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
constexpr std::uint32_t kWholePacket = 0xffffffff, kNoPacket = 0;  // what a filter returns

}  // namespace

std::vector<sock_filter> CallerProgram(int family, const std::string& address) {
  std::vector<sock_filter> program;
  const auto admit = [&](const std::string& caller) {
    const Words words = WordsOf(family, caller);
    if (words.empty()) return;
    // Each word that differs jumps behind the return, which follows the last word.
    auto left = static_cast<std::uint8_t>(2 * words.size());
    std::uint32_t at = SenderAt(family);
    for (const std::uint32_t word : words) {
      left -= 2;
      program.push_back({kLoad, 0, 0, at});
      program.push_back({kJumpIfEqual, 0, static_cast<std::uint8_t>(left + 1), word});
      at += sizeof word;
    }
    program.push_back({kReturn, 0, 0, kWholePacket});
  };
  admit(address);
  for (const char* local : kLocal) admit(local);
  program.push_back({kReturn, 0, 0, kNoPacket});
  return program;
}

CallerFilter::CallerFilter(std::string address) : address_(std::move(address)) {
  current_filter = this;
}

CallerFilter::~CallerFilter() {
  current_filter = nullptr;
}

int CallerFilter::Listen(int socket, int backlog) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length);
  if (!address_.empty()) {
    std::vector<sock_filter> program = CallerProgram(bound.ss_family, address_);
    const sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
    if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) != 0) {
      status_ = absl::UnavailableError(
          fmt::format("a filter of {} instructions: {}", program.size(), std::strerror(errno)));
    }
  }
  return static_cast<int>(::syscall(SYS_listen, socket, backlog));
}

}  // namespace lockstep::train

// Replaces the C library's listen() for this program and its libraries. It differs only on threads
// with a CallerFilter.
extern "C" __attribute__((visibility("default"))) int listen(int socket, int backlog) noexcept {
  using lockstep::train::current_filter;
  if (current_filter != nullptr) return current_filter->Listen(socket, backlog);
  return static_cast<int>(::syscall(SYS_listen, socket, backlog));
}
