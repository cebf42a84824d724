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
#include <set>

namespace lockstep::train {
namespace {

thread_local CallerFilter* current_filter = nullptr;

// This pod's own: its loopback, and Istio's proxy, through which the members' connections come.
constexpr const char* kLocal[] = {"127.0.0.1", "127.0.0.6", "::1", "::6"};

using Words = std::vector<std::uint32_t>;  // of an address, in host order

// Empty: no address of the family.
Words WordsOf(int family, const std::string& address) {
  std::array<std::uint32_t, 4> bytes{};
  if (::inet_pton(family, address.c_str(), bytes.data()) != 1) return {};
  Words words(bytes.begin(), bytes.begin() + (family == AF_INET ? 1 : 4));
  for (std::uint32_t& word : words) word = ntohl(word);
  return words;
}

// Where the sender's address is in the packet's IP header.
std::uint32_t SenderAt(int family) {
  return static_cast<std::uint32_t>(SKF_NET_OFF) + (family == AF_INET ? 12U : 8U);
}

}  // namespace

std::vector<sock_filter> CallerProgram(int family, const std::vector<std::string>& addresses) {
  std::set<Words> callers;
  for (const std::string& address : addresses) callers.insert(WordsOf(family, address));
  for (const char* address : kLocal) callers.insert(WordsOf(family, address));
  callers.erase(Words());
  constexpr std::uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr std::uint16_t kJumpIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
  constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
  constexpr std::uint32_t kWhole = 0xffffffff, kNothing = 0;
  std::vector<sock_filter> program;
  for (const Words& words : callers) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      program.push_back({kLoad, 0, 0, SenderAt(family) + 4 * static_cast<std::uint32_t>(i)});
      // What is left of this address is passed over if the word differs.
      const auto left = static_cast<std::uint8_t>(2 * (words.size() - 1 - i) + 1);
      program.push_back({kJumpIfEqual, 0, left, words[i]});
    }
    program.push_back({kReturn, 0, 0, kWhole});
  }
  program.push_back({kReturn, 0, 0, kNothing});
  return program;
}

CallerFilter::CallerFilter(const std::vector<std::string>& addresses) : addresses_(addresses) {
  current_filter = this;
}

CallerFilter::~CallerFilter() {
  current_filter = nullptr;
}

int CallerFilter::Listen(int socket, int backlog) {
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &length);
  if (!addresses_.empty()) {
    std::vector<sock_filter> program = CallerProgram(bound.ss_family, addresses_);
    if (program.size() > BPF_MAXINSNS) program.resize(BPF_MAXINSNS + 1);  // refused as too long
    const sock_fprog attached{static_cast<unsigned short>(program.size()), program.data()};
    if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) != 0) {
      status_ = absl::UnavailableError(
          fmt::format("a filter of {} instructions: {}", program.size(), std::strerror(errno)));
    }
  }
  return static_cast<int>(::syscall(SYS_listen, socket, backlog));
}

}  // namespace lockstep::train

// The C library's, for this program and its libraries, but for threads with a CallerFilter.
extern "C" __attribute__((visibility("default"))) int listen(int socket, int backlog) noexcept {
  using lockstep::train::current_filter;
  if (current_filter != nullptr) return current_filter->Listen(socket, backlog);
  return static_cast<int>(::syscall(SYS_listen, socket, backlog));
}
