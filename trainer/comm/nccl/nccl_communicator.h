// Collectives between GPUs. NCCL's own kernels sum, on the GPUs' streams; they wait there for those
// of the other ranks, without end if a rank is lost. Only ncclCommAbort makes them give up, and
// then the sums are half done and the stream goes on as if nothing had happened. So:
// - A failure is noted before ncclCommAbort is called. What EnqueueStatus queues runs after the
//   sums. If it finds no failure, no earlier kernel of this rank was made to give up.
// - A kernel that gives up still tells its peers that its data are there, so a peer's sum may end
//   with anything. So the sums count on a rank only if all ranks report over the hosts'
//   communicator that theirs ended without a failure (AgreeOver). Sums that do not count on one
//   rank may count on others. If those ranks have applied a step that this rank has not, this rank
//   takes over their state when the ranks regroup.
// - NCCL must not be aborted while a thread is in one of its functions. Its functions are called
//   with a mutex locked and without blocking (ncclInProgress, and then again until it is done).
//   One thread of the communicator's own aborts, whatever the cause: Abort(), a stop request, a
//   failed call, an error that NCCL reports later, or the timeout.
// ncclCommAbort itself may wait for a GPU or an NCCL thread that no longer answers. Nothing can
// interrupt it, so the process ends after abort_limit.
//
// All ranks get the same bits. NCCL chooses the order of a sum by the GPUs' topology and the count,
// so runs on the same machines with the same number of ranks are reproducible, unless switches
// compute the sums (NVLS; see the supervisor). The order differs from that of sums on the host.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "trainer/comm/gradient_reducer.h"
#include "trainer/comm/nccl/nccl_api.h"
#include "trainer/comm/stream_communicator.h"

namespace lockstep::train {

class NcclCommunicator final : public StreamCommunicator {
 public:
  struct Options {
    int rank = 0, size = 1;
    nccl::UniqueId id = {};  // only of this group, the same on all ranks
    Duration connect_timeout = std::chrono::seconds(30);  // for Create and Try together
    Duration timeout = std::chrono::seconds(30);          // for each wait for a peer afterwards
    std::stop_token cancel = {};  // a stop request acts as Abort(), even during Create
    Duration abort_limit = std::chrono::minutes(1);  // for ncclCommAbort, before the process ends
  };
  // Blocks until all ranks have called it. `stream`: of this rank's GPU. Unavailable: NCCL has
  // failed, or a rank did not come within connect_timeout. Cancelled: see Options::cancel.
  static absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create(const nccl::Api& api,
                                                                  const Options& options,
                                                                  Stream& stream);
  // Requires: all work that it has queued has ended, by itself or after Abort().
  ~NcclCommunicator() override;

  // Sums these ranges of `memory` once, so that NCCL makes its on-demand connections before a step
  // needs them. Blocks until the sums are done. Unavailable: NCCL has failed, or the sums were not
  // done within connect_timeout after Create was called. Cancelled: as for Create.
  absl::Status Try(float* memory, std::span<const GradientReducer::Bucket> ranges, Stream& stream);

  // From now on, EnqueueStatus reports success only if the sums of all ranks have succeeded. The
  // ranks tell each other over `host`, and a failure aborts `host`. All ranks call this before the
  // first sum that counts. Requires: `host` has the same ranks and outlives this, and no other
  // collective of `host` runs while sums are queued.
  void AgreeOver(Communicator& host);

  std::string Name() const override { return "nccl"; }
  // Both return once the work is on the stream, or on failure (see status()). If NCCL must still
  // connect, they wait until all ranks have called them. Requires: `dtype` is float32.
  void EnqueueAllReduceSum(void* buffer, std::int64_t count, DType dtype, Stream& stream) override;
  void EnqueueBroadcast(void* buffer, std::int64_t count, DType dtype, int root,
                        Stream& stream) override;
  void EnqueueStatus(bool* is_ok, Stream& stream) override;
  absl::Status status() const override;
  void Abort() override;

 private:
  NcclCommunicator(const nccl::Api& api, const Options& options);
  absl::Status Connect(const Options& options, Stream& stream);
  // The time by which something must be done, and the timeout from which it was computed.
  struct Deadline {
    SteadyTime at;
    Duration after;
  };
  static Deadline In(Duration timeout) {
    return {std::chrono::steady_clock::now() + timeout, timeout};
  }
  // Calls `function`, unless there is a failure, and waits until NCCL is done with it. Returns the
  // failure, if any.
  absl::Status Run(const char* name, const Deadline& deadline,
                   const std::function<int()>& function);
  absl::Status RunSum(void* buffer, std::int64_t count, Stream& stream, const Deadline& deadline);
  // Queues a mark: the watching thread waits for it.
  void EnqueueMark(Stream& stream);
  // Lets the earlier sums count only if those of all ranks have succeeded. Blocks until all ranks
  // have called it, but returns at once if this rank has failed.
  void Agree(Communicator& host);
  // Keeps the first failure, and has the watching thread abort. Returns the first one.
  absl::Status Fail(absl::Status failure);
  std::string Describe(const char* name, int result) const;

  void Watch();
  bool IsOverdue() const;
  void LookForError();

  const nccl::Api& api_;
  const Duration timeout_, abort_limit_;
  const Deadline connected_by_;
  bool is_ok_ = true;  // used only by the stream's work

  std::mutex api_mutex_;  // held in every call of NCCL's functions, and never by a stream's work
  nccl::CommHandle comm_ = nullptr;  // guarded by api_mutex_; null again once it is aborted

  mutable std::mutex mutex_;
  std::condition_variable failed_, mark_reached_;
  // Guarded by mutex_:
  Communicator* host_ = nullptr;  // see AgreeOver
  absl::Status failure_;
  std::uint64_t marks_queued_ = 0, marks_reached_ = 0;
  SteadyTime last_mark_;  // reached, or queued where none was left

  std::thread watching_;
  // Last: it may call Abort().
  std::unique_ptr<std::stop_callback<std::function<void()>>> on_cancel_;
};

}  // namespace lockstep::train
