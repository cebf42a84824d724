// A port that a test gives away before somebody listens at it.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "tests/support/loopback.h"

namespace lockstep::testing {

// Returns a port of loopback at which nobody listens now. It is below those that the kernel gives
// to whoever asks for any (from 32768 on), so that no other test is given it meanwhile, and below
// those that `lockstep run` takes. Chosen at random, since tests run beside each other.
inline int FreePort() {
  std::random_device random;
  while (true) {
    const int port = std::uniform_int_distribution(10000, 18999)(random);
    const sockaddr_in address = LoopbackAddress(port);
    const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_free =
        bind(taken, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(taken);
    if (is_free) return port;
  }
}

}  // namespace lockstep::testing
