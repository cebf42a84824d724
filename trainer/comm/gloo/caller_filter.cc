#include "trainer/comm/gloo/caller_filter.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>

#include "base/log.h"

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

constexpr std::uint16_t kJumpIfEqual = BPF_JMP | BPF_JEQ | BPF_K;
constexpr std::uint16_t kJump = BPF_JMP | BPF_JA;
constexpr std::uint16_t kReturn = BPF_RET | BPF_K;
constexpr std::uint32_t kWholePacket = 0xffffffff, kNoPacket = 0;  // what a filter returns

}  // namespace

std::vector<sock_filter> CallerProgram(int family, const std::vector<std::string>& addresses) {
  std::map<Words, Words> callers;  // key: all words but the last; value: the last words
  const auto add = [&](const std::string& address) {
    Words words = WordsOf(family, address);
    if (words.empty()) return;
    const std::uint32_t last = words.back();
    words.pop_back();
    callers[words].push_back(last);
  };
  for (const std::string& address : addresses) add(address);
  for (const char* address : kLocal) add(address);
  std::vector<sock_filter> program;
  const auto load = [&](std::size_t word) {
    program.push_back(
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, SenderAt(family) + 4 * static_cast<std::uint32_t>(word)});
  };
  for (auto& [prefix, lasts] : callers) {
    std::vector<std::size_t> misses;  // jumps to the next prefix
    for (std::size_t word = 0; word < prefix.size(); ++word) {
      load(word);
      program.push_back({kJumpIfEqual, 1, 0, prefix[word]});
      misses.push_back(program.size());
      program.push_back({kJump, 0, 0, 0});
    }
    load(prefix.size());
    std::ranges::sort(lasts);
    lasts.erase(std::ranges::unique(lasts).begin(), lasts.end());
    // A conditional jump reaches 255 instructions.
    constexpr std::size_t kBlock = 250;
    for (std::size_t begin = 0; begin < lasts.size(); begin += kBlock) {
      const std::size_t count = std::min(kBlock, lasts.size() - begin);
      for (std::size_t i = 0; i < count; ++i) {
        program.push_back(
            {kJumpIfEqual, static_cast<std::uint8_t>(count - i), 0, lasts[begin + i]});
      }
      program.push_back({kJump, 0, 0, 1});
      program.push_back({kReturn, 0, 0, kWholePacket});
    }
    for (const std::size_t miss : misses) {
      program[miss].k = static_cast<std::uint32_t>(program.size() - miss - 1);
    }
  }
  program.push_back({kReturn, 0, 0, kNoPacket});
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
    if (family_ != bound.ss_family) {
      family_ = bound.ss_family;
      program_ = CallerProgram(family_, addresses_);
      // The kernel refuses a program that is one instruction too long.
      if (program_.size() > BPF_MAXINSNS) program_.resize(BPF_MAXINSNS + 1);
    }
    const sock_fprog attached{static_cast<unsigned short>(program_.size()), program_.data()};
    if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof attached) != 0 &&
        status_.ok()) {
      status_ = absl::UnavailableError(
          fmt::format("a filter of {} instructions: {}", program_.size(), std::strerror(errno)));
      LogWarning("the kernel keeps no stranger from the ports of gloo",
                 {{"reason", std::string(status_.message())}});
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
