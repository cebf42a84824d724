// Gloo's TCP transport, without the ways in which a peer could end this process: an exception on
// the thread of Gloo's event loop ends the pair that it concerns, and no more.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>

namespace lockstep::train {

// `device`: one of Gloo's TCP devices. `connect_timeout`: how long a pair waits until it is
// connected.
std::shared_ptr<gloo::transport::Context> MakeLastingContext(
    const std::shared_ptr<gloo::transport::Device>& device, int rank, int size,
    std::chrono::milliseconds connect_timeout);

}  // namespace lockstep::train
