#include "trainer/comm/nccl/nccl_communicator.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "trainer/comm/hang_limit.h"

namespace lockstep::train {
namespace {

// How often the watching thread looks for what nobody tells it.
constexpr auto kWatchPeriod = std::chrono::milliseconds(100);

// Waits between two looks at a call that NCCL has yet to finish. A thread of NCCL's queues each
// collective, which takes some tens of microseconds; connections take longer.
class Pause {
 public:
  void operator()() {
    if (std::chrono::steady_clock::now() - start_ < std::chrono::milliseconds(1)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

 private:
  const SteadyTime start_ = std::chrono::steady_clock::now();
};

void CheckElements(std::int64_t count, DType dtype) {
  LOCKSTEP_CHECK(dtype == DType::kFloat32 && count >= 0,
                 "nccl: found {} elements of {}, expected float32", count, DTypeName(dtype));
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(const nccl::Api& api,
                                                                           const Options& options,
                                                                           Stream& stream) {
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(api, options));
  LOCKSTEP_RETURN_IF_ERROR(communicator->Connect(options, stream));
  return communicator;
}

NcclCommunicator::NcclCommunicator(const nccl::Api& api, const Options& options)
    : api_(api),
      timeout_(options.timeout),
      abort_limit_(options.abort_limit),
      connected_by_(In(options.connect_timeout)),
      watching_([this] { Watch(); }),
      on_cancel_(std::make_unique<std::stop_callback<std::function<void()>>>(
          options.cancel, [this] { Abort(); })) {}

NcclCommunicator::~NcclCommunicator() {
  on_cancel_.reset();
  {
    const std::lock_guard lock(mutex_);
    host_ = nullptr;  // an end is no failure
  }
  Abort();
  watching_.join();
}

absl::Status NcclCommunicator::Connect(const Options& options, Stream& stream) {
  LOCKSTEP_CHECK(stream.Native().handle != nullptr, "nccl: the stream is not one of a GPU");
  nccl::Config config{.blocking = 0};
  return Run("ncclCommInitRankConfig", connected_by_, [&] {
    return api_.CommInitRankConfig(&comm_, options.size, options.id, options.rank, &config);
  });
}

absl::Status NcclCommunicator::Try(float* memory, std::span<const GradientReducer::Bucket> ranges,
                                   Stream& stream) {
  for (const GradientReducer::Bucket& range : ranges) {
    LOCKSTEP_RETURN_IF_ERROR(
        RunSum(memory + range.begin, range.end - range.begin, stream, connected_by_));
  }
  EnqueueMark(stream);
  std::unique_lock lock(mutex_);
  const bool is_over = mark_reached_.wait_until(
      lock, connected_by_.at, [this] { return marks_reached_ == marks_queued_ || !failure_.ok(); });
  lock.unlock();
  if (is_over) return status();
  return Fail(absl::UnavailableError(
      fmt::format("nccl: the first sums did not end within {} s: a rank is lost or late",
                  std::chrono::duration<double>(connected_by_.after).count())));
}

void NcclCommunicator::EnqueueAllReduceSum(void* buffer, std::int64_t count, DType dtype,
                                           Stream& stream) {
  CheckElements(count, dtype);
  RunSum(buffer, count, stream, In(timeout_)).IgnoreError();  // status() has it
}

absl::Status NcclCommunicator::RunSum(void* buffer, std::int64_t count, Stream& stream,
                                      const Deadline& deadline) {
  const auto handle = static_cast<nccl::StreamHandle>(stream.Native().handle);
  return Run("ncclAllReduce", deadline, [&] {
    return api_.AllReduce(buffer, buffer, static_cast<std::size_t>(count), nccl::kFloat32,
                          nccl::kSum, comm_, handle);
  });
}

void NcclCommunicator::EnqueueBroadcast(void* buffer, std::int64_t count, DType dtype, int root,
                                        Stream& stream) {
  CheckElements(count, dtype);
  const auto handle = static_cast<nccl::StreamHandle>(stream.Native().handle);
  Run("ncclBroadcast", In(timeout_), [&] {
    return api_.Broadcast(buffer, buffer, static_cast<std::size_t>(count), nccl::kFloat32, root,
                          comm_, handle);
  }).IgnoreError();  // status() has it
  EnqueueMark(stream);
}

void NcclCommunicator::EnqueueStatus(bool* is_ok, Stream& stream) {
  EnqueueMark(stream);
  Communicator* host = nullptr;
  {
    const std::lock_guard lock(mutex_);
    host = host_;
  }
  if (host != nullptr) stream.Call([this, host] { Agree(*host); });
  stream.Upload(&is_ok_, is_ok, sizeof(is_ok_));
}

void NcclCommunicator::AgreeOver(Communicator& host) {
  const std::lock_guard lock(mutex_);
  host_ = &host;
}

void NcclCommunicator::Agree(Communicator& host) {
  if (!is_ok_) return;  // the watching thread aborts `host`, so that no peer waits
  float ended = 1;
  absl::Status agreed = host.AllReduceSum(std::span(&ended, 1));
  if (agreed.ok() && ended == static_cast<float>(host.size())) return;
  is_ok_ = false;
  if (agreed.ok()) agreed = absl::UnavailableError("nccl: the sums of another rank have failed");
  Fail(std::move(agreed)).IgnoreError();
}

absl::Status NcclCommunicator::status() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void NcclCommunicator::Abort() {
  Fail(absl::CancelledError("nccl: aborted by this process")).IgnoreError();
}

absl::Status NcclCommunicator::Run(const char* name, const Deadline& deadline,
                                   const std::function<int()>& function) {
  int result = nccl::kInProgress;
  Pause pause;
  for (bool is_called = false; result == nccl::kInProgress; is_called = true) {
    if (is_called) pause();
    LOCKSTEP_RETURN_IF_ERROR(status());
    const std::lock_guard lock(api_mutex_);
    LOCKSTEP_RETURN_IF_ERROR(status());  // the communicator may have been aborted meanwhile
    result = is_called ? nccl::kSuccess : function();
    if (is_called && api_.CommGetAsyncError(comm_, &result) != nccl::kSuccess) {
      return Fail(absl::UnavailableError(Describe("ncclCommGetAsyncError", result)));
    }
    if (result != nccl::kSuccess && result != nccl::kInProgress) {
      return Fail(absl::UnavailableError(Describe(name, result)));
    }
    if (result == nccl::kInProgress && std::chrono::steady_clock::now() >= deadline.at) {
      return Fail(absl::UnavailableError(
          fmt::format("nccl: {} was not done within {} s: a rank is lost or late", name,
                      std::chrono::duration<double>(deadline.after).count())));
    }
  }
  return absl::OkStatus();
}

void NcclCommunicator::EnqueueMark(Stream& stream) {
  {
    const std::lock_guard lock(mutex_);
    if (marks_queued_++ == marks_reached_) last_mark_ = std::chrono::steady_clock::now();
  }
  stream.Call([this] {
    const std::lock_guard lock(mutex_);
    ++marks_reached_;
    last_mark_ = std::chrono::steady_clock::now();
    is_ok_ = failure_.ok();
    mark_reached_.notify_all();
  });
}

absl::Status NcclCommunicator::Fail(absl::Status failure) {
  const std::lock_guard lock(mutex_);
  failure_.Update(std::move(failure));  // keeps the first
  failed_.notify_all();
  mark_reached_.notify_all();
  return failure_;
}

std::string NcclCommunicator::Describe(const char* name, int result) const {
  const char* last = api_.GetLastError(comm_);
  return fmt::format("nccl: {} failed with {}: {}: {}", name, result, api_.GetErrorString(result),
                     last == nullptr ? "" : last);
}

void NcclCommunicator::Watch() {
  std::unique_lock lock(mutex_);
  while (failure_.ok()) {
    if (IsOverdue()) {
      failure_ = absl::UnavailableError(
          fmt::format("nccl: a collective did not end within {} s: a rank is lost or late",
                      std::chrono::duration<double>(timeout_).count()));
      mark_reached_.notify_all();
      break;
    }
    lock.unlock();
    LookForError();
    lock.lock();
    failed_.wait_for(lock, kWatchPeriod, [this] { return !failure_.ok(); });
  }
  Communicator* const host = host_;
  lock.unlock();
  // From here on the failure is known to whatever a stream does.
  if (host != nullptr) host->Abort();
  const HangLimit limit("nccl: ncclCommAbort", abort_limit_);
  const std::lock_guard api_lock(api_mutex_);  // a call that hangs never gives it back
  if (comm_ != nullptr) api_.CommAbort(std::exchange(comm_, nullptr));
}

bool NcclCommunicator::IsOverdue() const {
  return marks_reached_ < marks_queued_ &&
         std::chrono::steady_clock::now() - last_mark_ >= timeout_;
}

// A connection that breaks is reported here, if NCCL learns of it.
void NcclCommunicator::LookForError() {
  const std::unique_lock lock(api_mutex_, std::try_to_lock);
  if (!lock.owns_lock() || comm_ == nullptr) return;
  int result = nccl::kSuccess;
  if (api_.CommGetAsyncError(comm_, &result) != nccl::kSuccess || result == nccl::kSuccess ||
      result == nccl::kInProgress) {
    return;
  }
  Fail(absl::UnavailableError(Describe("a collective or a connection", result))).IgnoreError();
}

}  // namespace lockstep::train
