#include "trainer/comm/gloo/gloo_transport.h"

#include <gloo/common/error.h>
#include <gloo/transport/tcp/attr.h>
#include <gloo/transport/tcp/device.h>

#include <functional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "trainer/comm/gloo/caller_filter.h"
#include "trainer/comm/gloo/lasting_context.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kClosers = 16;  // threads that end connections

[[noreturn]] void ThrowAborted() {
  throw gloo::IoException("connections closed");
}

// Calls end(i) for each of `count` connections, which ends it. For each of them Gloo waits until
// its loop wakes up, which takes up to 10 ms: one after the other, 256 would take 2.4 s.
void EndConnections(int count, const std::function<void(int)>& end) {
  const auto end_one = [&end](std::size_t i) { end(static_cast<int>(i)); };
  ThreadPool(kClosers).VisitEach(static_cast<std::size_t>(count), kClosers, end_one);
}

}  // namespace

// Registered with its context while it exists, so that Abort can wake the thread that waits on it.
class AbortableContext::Buffer final : public gloo::transport::UnboundBuffer {
 public:
  Buffer(AbortableContext& context, std::unique_ptr<gloo::transport::UnboundBuffer> tcp)
      : UnboundBuffer(tcp->ptr, tcp->size), context_(context), tcp_(std::move(tcp)) {
    const std::lock_guard lock(context_.abort_mutex_);
    context_.buffers_.insert(tcp_.get());
  }
  ~Buffer() override {
    const std::lock_guard lock(context_.abort_mutex_);
    context_.buffers_.erase(tcp_.get());
  }

  // Throws, because Gloo's collectives ignore the `false` that an aborted wait returns.
  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    if (context_.aborted() || !tcp_->waitRecv(rank, timeout)) ThrowAborted();
    return true;
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    if (context_.aborted() || !tcp_->waitSend(rank, timeout)) ThrowAborted();
    return true;
  }
  void abortWaitRecv() override { tcp_->abortWaitRecv(); }
  void abortWaitSend() override { tcp_->abortWaitSend(); }
  void send(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    tcp_->send(rank, slot, offset, bytes);
  }
  void recv(int rank, std::uint64_t slot, std::size_t offset, std::size_t bytes) override {
    tcp_->recv(rank, slot, offset, bytes);
  }
  void recv(std::vector<int> ranks, std::uint64_t slot, std::size_t offset,
            std::size_t bytes) override {
    tcp_->recv(std::move(ranks), slot, offset, bytes);
  }

 private:
  AbortableContext& context_;
  const std::unique_ptr<gloo::transport::UnboundBuffer> tcp_;
};

AbortableContext::AbortableContext(std::shared_ptr<gloo::transport::Context> tcp,
                                   std::vector<std::string> callers)
    : Context(tcp->rank, tcp->size), tcp_(std::move(tcp)), callers_(std::move(callers)) {
  LOCKSTEP_CHECK(callers_.empty() || std::ssize(callers_) == size,
                 "gloo: found {} callers' addresses for {} ranks", callers_.size(), size);
}

// Destroys the connections without close(), which would reset them: a slower peer would lose what
// it has yet to receive.
AbortableContext::~AbortableContext() {
  if (!aborted_) EndConnections(size, [this](int peer) { tcp_->getPair(peer).reset(); });
}

std::unique_ptr<gloo::transport::Pair>& AbortableContext::createPair(int peer) {
  const std::lock_guard lock(abort_mutex_);
  if (aborted_) ThrowAborted();
  const CallerFilter filter(callers_.empty() ? "" : callers_.at(static_cast<std::size_t>(peer)));
  auto& pair = tcp_->createPair(peer);  // listens
  if (!filter.status().ok() && !std::exchange(has_told_, true)) {
    LogWarning("the kernel keeps no stranger from the ports of gloo",
               {{"reason", std::string(filter.status().message())}});
  }
  pairs_made_.push_back(pair.get());
  return pair;
}

std::unique_ptr<gloo::transport::UnboundBuffer> AbortableContext::createUnboundBuffer(
    void* data, std::size_t bytes) {
  return std::make_unique<Buffer>(*this, tcp_->createUnboundBuffer(data, bytes));
}

void AbortableContext::Abort() {
  const std::lock_guard lock(abort_mutex_);
  if (std::exchange(aborted_, true)) return;
  // A wait between the aborted() check and its start finds its buffer's abort flag set.
  for (gloo::transport::UnboundBuffer* buffer : buffers_) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  EndConnections(static_cast<int>(pairs_made_.size()),
                 [this](int i) { pairs_made_[static_cast<std::size_t>(i)]->close(); });
}

bool AbortableContext::aborted() {
  const std::lock_guard lock(abort_mutex_);
  return aborted_;
}

AbortableDevice::AbortableDevice(const std::string& address, std::vector<std::string> callers,
                                 std::chrono::milliseconds connect_timeout)
    : tcp_(gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()))),
      callers_(std::move(callers)),
      connect_timeout_(connect_timeout) {}

std::shared_ptr<gloo::transport::Context> AbortableDevice::createContext(int rank, int size) {
  const std::lock_guard lock(mutex_);
  if (aborted_) ThrowAborted();
  auto context = std::make_shared<AbortableContext>(
      MakeLastingContext(tcp_, rank, size, connect_timeout_), callers_);
  context_ = context;
  return context;
}

void AbortableDevice::Abort() {
  std::shared_ptr<AbortableContext> context;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    context = context_.lock();
  }
  if (context) context->Abort();
}

}  // namespace lockstep::train
