// A training process under the strategy ParameterServer: task after task, until the run is over.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "trainer/identity/identity.h"
#include "trainer/train/batch_gradient.h"
#include "trainer/train/parameter_client.h"
#include "trainer/train/parameter_owner.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

struct ParameterWorkerOptions {
  ParameterClientOptions client;
  bool owns = false;  // this is the leading process
  bool sync = false;
};

// Not thread-safe.
class ParameterWorker {
 public:
  // Requires: `loop` outlives this. Its session's world is the number of parts of a step's batch.
  // Takes over the rendezvous' OnGenerationEnd.
  ParameterWorker(ParameterWorkerOptions options, TrainLoop& loop);

  // Joins the rendezvous' next generation. Returns Rendezvous::Join's status.
  absl::Status Join();
  // Trains to the end. kStopped: this pod was asked to stop; the leading process has saved,
  // or the reason says why it could not.
  // kFailed's reason is a status as FailWith takes it. kStorage: the end could not be saved or
  // exported. At the end of the run, the leading process tells its supervisor, then the servers.
  // Requires: the process is a member of the rendezvous' current generation. Joins the next one
  // whenever a generation ends: the leading pod's supervisor hears of progress by the rendezvous.
  LoopOutcome Run();
  // The leading process tells all servers that the run is over, as far as they can be reached now.
  void FinishServers();

 private:
  using Ended = std::optional<LoopOutcome>;

  LoopOutcome Train();
  absl::Status FinishRendezvous();
  void CountBatches(const proto::Next& told, const proto::TaskReply& reply);
  Ended JoinAgain();
  Ended Follow(const proto::TaskReply& reply);
  Ended Wait(const proto::Wait& wait);
  absl::StatusOr<proto::TaskReply> Ask();
  Ended RunTask(const proto::Task& task, std::uint64_t fence);
  Ended NoteFailure(const absl::Status& status);
  absl::StatusOr<ShardGroup::PushResult> Push(const BatchTotals& totals, BatchTask task,
                                              std::vector<std::int64_t> versions);
  void ReportLastTask();
  bool StopRequested() const { return loop_.rendezvous.StopRequested(); }

  const ParameterWorkerOptions options_;
  TrainLoop& loop_;
  ParameterClient client_;
  BatchGradient gradient_;
  std::optional<ParameterOwner> owner_;
  std::uint64_t fence_ = 0;  // of the task at hand
  proto::Next next_;         // the next report
  bool is_halted_ = false;   // server 0 said at the last question that nobody gets a batch
  // Set by the rendezvous' thread, which may outlive this.
  const std::shared_ptr<std::atomic<bool>> generation_ended_;
};

// Runs the process to its end and returns its exit code. Logs the reason.
int RunParameterWorker(const Identity& identity, TrainLoop& loop);

}  // namespace lockstep::train
