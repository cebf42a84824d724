// Gloo's TCP transport with the one thing added that it lacks: an Abort from another thread that
// wakes who waits for a peer. (Context::closeConnections closes, but wakes nobody.) It stands
// between Gloo's collectives and its TCP classes, behind the interfaces that both share.
#pragma once

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace lockstep::train {

// Thread-safe where Gloo's own context is, and Abort everywhere.
class AbortableContext final : public gloo::transport::Context {
 public:
  explicit AbortableContext(std::shared_ptr<gloo::transport::Context> tcp);

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override { return tcp_->getPair(peer); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      std::size_t size) override;
  // Every pending and later wait throws IoException; peers find their connections closed.
  void Abort();

 private:
  class Buffer;
  bool aborted();

  const std::shared_ptr<gloo::transport::Context> tcp_;
  std::mutex abort_mutex_;  // guards the rest
  bool aborted_ = false;
  std::vector<gloo::transport::Pair*> pairs_made_;
  std::set<gloo::transport::UnboundBuffer*> buffers_;
};

// Makes one AbortableContext. Thread-safe.
class AbortableDevice final : public gloo::transport::Device {
 public:
  // `address`: an IP of this host or a name for it; empty: what the host name resolves to.
  AbortableDevice(const std::string& address, std::chrono::milliseconds timeout);

  std::string str() const override { return tcp_->str(); }
  const std::string& getPCIBusID() const override { return tcp_->getPCIBusID(); }
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;
  // Also aborts the context if it is made later.
  void Abort();

 private:
  const std::shared_ptr<gloo::transport::Device> tcp_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::weak_ptr<AbortableContext> context_;
  bool aborted_ = false;
};

}  // namespace lockstep::train
