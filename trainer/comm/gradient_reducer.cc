#include "trainer/comm/gradient_reducer.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace lockstep::train {
namespace {

// For a group of one.
class IdleReducer final : public GradientReducer {
 public:
  void Ready(std::int64_t) override {}
  absl::Status Wait() override { return absl::OkStatus(); }
  absl::Status BroadcastShares(std::span<const FlatRange>) override { return absl::OkStatus(); }
  absl::Status status() const override { return absl::OkStatus(); }
};

class ThreadedReducer final : public GradientReducer {
 public:
  ThreadedReducer(Communicator& communicator, std::span<float> buffer, std::vector<Bucket> buckets)
      : communicator_(communicator),
        buffer_(buffer),
        buckets_(std::move(buckets)),
        ready_begin_(static_cast<std::int64_t>(buffer.size())),
        thread_([this] { Run(); }) {}

  ~ThreadedReducer() override {
    bool busy = false;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      busy = started_ && done_ < buckets_.size() && failure_.ok();
    }
    if (busy) communicator_.Abort();  // peers may never arrive
    work_.notify_one();
    thread_.join();
  }

  void Ready(std::int64_t begin) override {
    {
      const std::lock_guard lock(mutex_);
      LOCKSTEP_CHECK(begin >= 0 && begin <= ready_begin_,
                     "gradient reducer: ready from {}, expected 0 to {}", begin, ready_begin_);
      ready_begin_ = begin;
      // A wake-up costs the training thread time, so it is deferred until a bucket is full.
      if (!BucketReady()) return;
      started_ = true;
    }
    work_.notify_one();
  }

  absl::Status Wait() override {
    Ready(0);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_ == buckets_.size() || !failure_.ok(); });
    if (!failure_.ok()) return failure_;
    done_ = 0;
    started_ = false;
    ready_begin_ = static_cast<std::int64_t>(buffer_.size());
    return absl::OkStatus();
  }

  // On the caller's thread: there is nothing that the transfer could overlap with.
  absl::Status BroadcastShares(std::span<const FlatRange> shares) override {
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      if (shares[rank].size() == 0) continue;
      absl::Status sent = Broadcast(shares[rank], static_cast<int>(rank));
      if (!sent.ok()) return sent;
    }
    return absl::OkStatus();
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  bool BucketReady() const {
    return done_ < buckets_.size() && ready_begin_ <= buckets_[done_].begin;
  }

  absl::Status Broadcast(const FlatRange& range, int root) {
    absl::Status sent = communicator_.Broadcast(
        std::as_writable_bytes(buffer_.subspan(static_cast<std::size_t>(range.begin),
                                               static_cast<std::size_t>(range.size()))),
        root);
    const std::lock_guard lock(mutex_);
    failure_.Update(sent);  // keeps the first
    return sent;
  }

  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return stopping_ || BucketReady(); });
      if (stopping_) return;
      const Bucket bucket = buckets_[done_];
      lock.unlock();
      const absl::Status status = communicator_.AllReduceSum(
          buffer_.subspan(static_cast<std::size_t>(bucket.begin),
                          static_cast<std::size_t>(bucket.end - bucket.begin)));
      lock.lock();
      if (!status.ok()) {
        failure_ = status;
        finished_.notify_one();
        return;
      }
      if (++done_ == buckets_.size()) finished_.notify_one();
    }
  }

  Communicator& communicator_;
  const std::span<float> buffer_;
  const std::vector<Bucket> buckets_;
  mutable std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::int64_t ready_begin_;  // gradients from here on are complete
  std::size_t done_ = 0;      // buckets of this step that are summed
  bool started_ = false, stopping_ = false;
  absl::Status failure_;  // permanent: the communicator is broken
  std::thread thread_;    // last: uses all of the above
};

class StreamReducer final : public GradientReducer {
 public:
  StreamReducer(StreamCommunicator& collectives, std::vector<Bucket> buckets,
                const DeviceSums& sums)
      : collectives_(collectives),
        sums_(sums),
        buckets_(std::move(buckets)),
        ready_begin_(size()) {}

  ~StreamReducer() override {
    if (next_ > 0) collectives_.Abort();  // peers may never arrive
    try {
      sums_.transfer->Record()->Wait();
    } catch (const std::runtime_error& error) {  // the device's; its queue does no more work
      LogWarning("gradient reducer: the device failed while its sums were ended",
                 {{"reason", error.what()}});
    }
  }

  void Ready(std::int64_t begin) override {
    LOCKSTEP_CHECK(begin >= 0 && begin <= ready_begin_,
                   "gradient reducer: ready from {}, expected 0 to {}", begin, ready_begin_);
    ready_begin_ = begin;
    for (; next_ < buckets_.size() && begin <= buckets_[next_].begin; ++next_) {
      const Bucket& bucket = buckets_[next_];
      sums_.transfer->Wait(sums_.compute->Record());
      collectives_.EnqueueAllReduceSum(sums_.memory + bucket.begin, bucket.end - bucket.begin,
                                       DType::kFloat32, *sums_.transfer);
    }
  }

  absl::Status Wait() override {
    Ready(0);
    collectives_.EnqueueStatus(sums_.is_summed, *sums_.transfer);
    sums_.compute->Wait(sums_.transfer->Record());
    next_ = 0;
    ready_begin_ = size();
    return collectives_.status();
  }

  absl::Status BroadcastShares(std::span<const FlatRange> shares) override {
    sums_.transfer->Wait(sums_.compute->Record());
    for (std::size_t rank = 0; rank < shares.size(); ++rank) {
      if (shares[rank].size() == 0) continue;
      collectives_.EnqueueBroadcast(sums_.memory + shares[rank].begin, shares[rank].size(),
                                    DType::kFloat32, static_cast<int>(rank), *sums_.transfer);
    }
    sums_.compute->Wait(sums_.transfer->Record());
    return collectives_.status();
  }

  absl::Status status() const override { return collectives_.status(); }

 private:
  std::int64_t size() const { return buckets_.empty() ? 0 : buckets_.front().end; }

  StreamCommunicator& collectives_;
  const DeviceSums sums_;
  const std::vector<Bucket> buckets_;
  std::int64_t ready_begin_;
  std::size_t next_ = 0;  // bucket of this step
};

void CheckBuckets(const std::vector<GradientReducer::Bucket>& buckets, std::int64_t size) {
  std::int64_t end = size;
  for (const GradientReducer::Bucket& bucket : buckets) {
    LOCKSTEP_CHECK(bucket.end == end && bucket.begin >= 0 && bucket.begin < end,
                   "gradient buckets: [{}, {}) cannot follow {}", bucket.begin, bucket.end, end);
    end = bucket.begin;
  }
  LOCKSTEP_CHECK(end == 0, "gradient buckets: [0, {}) is in none", end);
}

}  // namespace

std::vector<GradientReducer::Bucket> GradientReducer::PlanBuckets(
    std::span<const std::int64_t> layer_starts, std::int64_t size, std::int64_t bucket_floats) {
  LOCKSTEP_CHECK(std::is_sorted(layer_starts.begin(), layer_starts.end()),
                 "gradient buckets: the layers' starts must ascend");
  std::vector<Bucket> buckets;
  std::int64_t end = size;
  for (std::size_t layer = layer_starts.size(); layer-- > 0;) {
    const std::int64_t start = layer_starts[layer];
    LOCKSTEP_CHECK(start >= 0 && start <= size, "gradient buckets: a layer starts at {} of {}",
                   start, size);
    if (start < end && end - start >= bucket_floats) {
      buckets.push_back({start, end});
      end = start;
    }
  }
  if (end > 0) buckets.push_back({0, end});
  return buckets;
}

std::unique_ptr<GradientReducer> GradientReducer::Create(Communicator& communicator,
                                                         std::span<float> buffer,
                                                         std::vector<Bucket> buckets) {
  CheckBuckets(buckets, std::ssize(buffer));
  if (communicator.size() == 1) return std::make_unique<IdleReducer>();
  return std::make_unique<ThreadedReducer>(communicator, buffer, std::move(buckets));
}

std::unique_ptr<GradientReducer> GradientReducer::CreateOnStreams(int ranks,
                                                                  StreamCommunicator& collectives,
                                                                  std::vector<Bucket> buckets,
                                                                  const DeviceSums& sums) {
  CheckBuckets(buckets, buckets.empty() ? 0 : buckets.front().end);
  if (ranks == 1) return std::make_unique<IdleReducer>();
  return std::make_unique<StreamReducer>(collectives, std::move(buckets), sums);
}

}  // namespace lockstep::train
