// Adds to Gloo's TCP transport what it lacks: an Abort from another thread that wakes waiting
// calls. (Context::closeConnections closes connections but does not wake waiters.) It wraps the TCP
// classes behind the interfaces that Gloo's collectives use.
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

// Lets only a peer's address connect to the port that is for this peer. Thread-safe where Gloo's
// own context is. Abort is always thread-safe.
class AbortableContext final : public gloo::transport::Context {
 public:
  // `callers`: see AbortableDevice.
  AbortableContext(std::shared_ptr<gloo::transport::Context> tcp, std::vector<std::string> callers);
  ~AbortableContext() override;

  std::unique_ptr<gloo::transport::Pair>& getPair(int peer) override { return tcp_->getPair(peer); }
  std::unique_ptr<gloo::transport::Pair>& createPair(int peer) override;
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void* data,
                                                                      std::size_t size) override;
  // Makes every pending and later wait throw IoException, and closes the connections to peers.
  void Abort();

 private:
  class Buffer;
  bool aborted();

  const std::shared_ptr<gloo::transport::Context> tcp_;
  const std::vector<std::string> callers_;
  std::mutex abort_mutex_;  // guards the rest
  bool aborted_ = false;
  bool has_told_ = false;  // that the kernel refused a filter
  std::vector<gloo::transport::Pair*> pairs_made_;
  std::set<gloo::transport::UnboundBuffer*> buffers_;
};

// Creates one AbortableContext. Thread-safe.
class AbortableDevice final : public gloo::transport::Device {
 public:
  // `address`: an IP address or name of this host; empty: what the host name resolves to.
  // `callers`: by rank, the IP address that the rank connects from; empty: any address may connect.
  // `connect_timeout`: how long a pair waits until it is connected.
  AbortableDevice(const std::string& address, std::vector<std::string> callers,
                  std::chrono::milliseconds connect_timeout);

  std::string str() const override { return tcp_->str(); }
  const std::string& getPCIBusID() const override { return tcp_->getPCIBusID(); }
  std::shared_ptr<gloo::transport::Context> createContext(int rank, int size) override;
  // Aborts the context. If there is none yet, createContext throws.
  void Abort();

 private:
  const std::shared_ptr<gloo::transport::Device> tcp_;
  const std::vector<std::string> callers_;
  const std::chrono::milliseconds connect_timeout_;
  std::mutex mutex_;
  std::weak_ptr<AbortableContext> context_;
  bool aborted_ = false;
};

}  // namespace lockstep::train
