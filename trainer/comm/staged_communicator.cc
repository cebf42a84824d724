#include <cstddef>
#include <mutex>
#include <string>

#include "base/check.h"
#include "trainer/comm/stream_communicator.h"

namespace lockstep::train {
namespace {

class StagedCommunicator final : public StreamCommunicator {
 public:
  StagedCommunicator(Communicator& communicator, float* device, std::span<float> staging)
      : communicator_(communicator), device_(device), staging_(staging) {}

  std::string Name() const override { return "staged"; }

  void EnqueueAllReduceSum(void* buffer, std::int64_t count, DType dtype, Stream& stream) override {
    const std::span<float> sums = StagingOf(buffer, count, dtype);
    stream.Download(buffer, sums.data(), sums.size_bytes());
    stream.Call([this, sums] { Run([&] { return communicator_.AllReduceSum(sums); }); });
    stream.Upload(sums.data(), buffer, sums.size_bytes());
  }

  void EnqueueBroadcast(void* buffer, std::int64_t count, DType dtype, int root,
                        Stream& stream) override {
    const std::span<float> data = StagingOf(buffer, count, dtype);
    const bool is_root = communicator_.rank() == root;
    if (is_root) stream.Download(buffer, data.data(), data.size_bytes());
    stream.Call([this, data, root] {
      Run([&] { return communicator_.Broadcast(std::as_writable_bytes(data), root); });
    });
    if (!is_root) stream.Upload(data.data(), buffer, data.size_bytes());
  }

  void EnqueueStatus(bool* is_ok, Stream& stream) override {
    stream.Call([this] { is_ok_ = status().ok(); });
    stream.Upload(&is_ok_, is_ok, sizeof(is_ok_));
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

  void Abort() override { communicator_.Abort(); }

 private:
  // The host memory through which `count` elements at `buffer` pass.
  std::span<float> StagingOf(void* buffer, std::int64_t count, DType dtype) const {
    const std::ptrdiff_t begin = static_cast<float*>(buffer) - device_;
    LOCKSTEP_CHECK(dtype == DType::kFloat32 && begin >= 0 && count >= 0 &&
                       begin + count <= std::ssize(staging_),
                   "staged collective: found {} elements of {} at {}, expected float32 within {}",
                   count, DTypeName(dtype), begin, staging_.size());
    return staging_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }

  template <typename Collective>
  void Run(const Collective& collective) {
    if (!status().ok()) return;
    absl::Status done = collective();
    const std::lock_guard lock(mutex_);
    status_ = std::move(done);
  }

  Communicator& communicator_;
  float* const device_;
  const std::span<float> staging_;
  mutable std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
  bool is_ok_ = true;    // used only by the stream's work
};

}  // namespace

std::unique_ptr<StreamCommunicator> MakeStagedCommunicator(Communicator& communicator,
                                                           float* device,
                                                           std::span<float> staging) {
  return std::make_unique<StagedCommunicator>(communicator, device, staging);
}

}  // namespace lockstep::train
