#include "trainer/comm/gloo/lasting_context.h"

#include <dlfcn.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string_view>

#include "base/check.h"

namespace lockstep::train {
namespace {

namespace tcp = gloo::transport::tcp;

// Gloo has a pair wait for its connection five times as long as it is told.
constexpr int kWaitsTimesAsLong = 5;

// What a peer sends may be malformed, and an answer to it may fail to be sent. Gloo's loop calls
// handleReadWrite with the pair's lock, under which the exception has to be caught: whoever gets
// the lock after that may wait for the loop.
class LastingPair final : public tcp::Pair {
 public:
  using Pair::Pair;

 private:
  void handleReadWrite(int events) override {
    try {
      Pair::handleReadWrite(events);
    } catch (const std::exception& error) {  // Gloo throws several unrelated types
      // Who waits for the pair gets this exception, as after any other failure of it.
      if (ex_ == nullptr) signalException(error.what());
    }
  }
};

class LastingContext final : public tcp::Context {
 public:
  using Context::Context;
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override {
    auto& pair = getPair(peer);
    pair = std::make_unique<LastingPair>(this, device_.get(), peer, getTimeout());
    return pair;
  }
};

bool IsGloo(const void* code) {
  Dl_info library{};
  return ::dladdr(code, &library) != 0 && library.dli_fname != nullptr &&
         std::string_view(library.dli_fname).find("libgloo.so") != std::string_view::npos;
}

}  // namespace

std::shared_ptr<gloo::transport::Context> MakeLastingContext(
    const std::shared_ptr<gloo::transport::Device>& device, int rank, int size,
    std::chrono::milliseconds connect_timeout) {
  auto tcp_device = std::dynamic_pointer_cast<tcp::Device>(device);
  LOCKSTEP_CHECK(tcp_device != nullptr, "gloo: found the device {}, expected one of TCP",
                 device->str());
  auto context = std::make_shared<LastingContext>(std::move(tcp_device), rank, size);
  // 0 would be no timeout.
  context->setTimeout(std::max(connect_timeout / kWaitsTimesAsLong, std::chrono::milliseconds(1)));
  return context;
}

}  // namespace lockstep::train

// Replaces the C library's getpeername() for this program and its libraries. It differs only for
// Gloo, which asks who has connected when the connection may already be reset, because the peer's
// group has ended: the kernel then knows no peer, and Gloo would throw outside of any pair's
// handleReadWrite. Told of a peer without an address, which it only names in messages, it goes on,
// and reads that the connection is reset.
extern "C" __attribute__((visibility("default"))) int getpeername(int socket, sockaddr* address,
                                                                  socklen_t* size) noexcept {
  const int result = static_cast<int>(::syscall(SYS_getpeername, socket, address, size));
  if (result == 0 || errno != ENOTCONN) return result;
  if (!lockstep::train::IsGloo(__builtin_return_address(0))) {
    errno = ENOTCONN;
    return -1;
  }
  address->sa_family = AF_UNSPEC;
  *size = sizeof address->sa_family;
  return 0;
}
