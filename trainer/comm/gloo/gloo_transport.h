// Gloo's TCP transport with the one thing added that it lacks: closing all connections from another
// thread in a way that wakes who waits on them (Context::closeConnections closes but wakes nobody).
#pragma once

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>

#include <memory>
#include <mutex>
#include <string>

namespace lockstep::train {

// All methods are thread-safe; Gloo's exceptions pass through.
class AbortableContext final : public gloo::transport::tcp::Context {
 public:
  using gloo::transport::tcp::Context::Context;
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override;
  // Every pending and later operation of every pair throws IoException with `reason`.
  void Abort(const std::string& reason);

 private:
  std::mutex mutex_;                        // pairs appear while the context is being connected
  std::string abort_reason_;
};

// Makes AbortableContexts and remembers the last one.
class AbortableDevice final : public gloo::transport::tcp::Device {
 public:
  // `address`: an IP of this host or a name for it; empty: what the host name resolves to.
  static std::shared_ptr<AbortableDevice> Create(const std::string& address);
  using gloo::transport::tcp::Device::Device;
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;
  // Also aborts the context that is made later, if none has been yet.
  void Abort(const std::string& reason);

 private:
  std::mutex mutex_;
  std::weak_ptr<AbortableContext> context_;
  std::string abort_reason_;
};

}  // namespace lockstep::train
