#include <cstddef>
#include <mutex>

#include "base/check.h"
#include "trainer/comm/stream_communicator.h"

namespace lockstep::train {
namespace {

class StagedCommunicator final : public StreamCommunicator {
 public:
  StagedCommunicator(Communicator& communicator, float* device, std::span<float> staging)
      : communicator_(communicator), device_(device), staging_(staging) {}

  void EnqueueAllReduceSum(void* buffer, std::int64_t count, DType dtype, Stream& stream) override {
    const std::ptrdiff_t begin = static_cast<float*>(buffer) - device_;
    LOCKSTEP_CHECK(dtype == DType::kFloat32 && begin >= 0 && count >= 0 &&
                       begin + count <= std::ssize(staging_),
                   "staged all-reduce: found {} elements of {} at {}, expected float32 within {}",
                   count, DTypeName(dtype), begin, staging_.size());
    const std::span<float> sums =
        staging_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    stream.Download(buffer, sums.data(), sums.size_bytes());
    stream.Call([this, sums] { Sum(sums); });
    stream.Upload(sums.data(), buffer, sums.size_bytes());
  }

  void EnqueueStatus(bool* is_ok, Stream& stream) override {
    stream.Call([this] { is_ok_ = status().ok(); });
    stream.Upload(&is_ok_, is_ok, sizeof(is_ok_));
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  void Sum(std::span<float> sums) {
    if (!status().ok()) return;
    absl::Status summed = communicator_.AllReduceSum(sums);
    const std::lock_guard lock(mutex_);
    status_ = std::move(summed);
  }

  Communicator& communicator_;
  float* const device_;
  const std::span<float> staging_;
  mutable std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
  bool is_ok_ = true;    // used by the stream's work alone
};

}  // namespace

std::unique_ptr<StreamCommunicator> MakeStagedCommunicator(Communicator& communicator,
                                                           float* device,
                                                           std::span<float> staging) {
  return std::make_unique<StagedCommunicator>(communicator, device, staging);
}

}  // namespace lockstep::train
