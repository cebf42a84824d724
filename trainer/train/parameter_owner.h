// What the leading process does besides its batches under the strategy ParameterServer: it loads
// the servers, keeps the run's state, evaluates, and saves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "api/proto/parameter_server.pb.h"
#include "base/clock.h"
#include "trainer/train/parameter_client.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

// Not thread-safe. Its results are those of TrainLoop: nullopt means that training continues.
class ParameterOwner {
 public:
  using Ended = std::optional<LoopOutcome>;

  // Requires: the references outlive this object, which keeps `loop.state` up to date.
  // `summed_parts`: see ShardLayout::parts.
  ParameterOwner(TrainLoop& loop, ParameterClient& client, int summed_parts)
      : loop_(loop), client_(client), summed_parts_(summed_parts) {}

  // If the newest checkpoint is that of the last step or a later one, or of a run that has stopped
  // early, there is nothing to train and perhaps no server left: does what is due after the last
  // step, and returns the run's end.
  Ended EndIfTrained();
  // Adds what the servers have to know to the next report.
  void Report(proto::Next& next);
  // Takes the records of steps, and the run's state if this process does not know it.
  Ended Hear(const proto::TaskReply& reply);
  // Loads all servers with the run's values if the session has them, or else with those of the
  // newest checkpoint or initial ones. kStorage: no checkpoint could be read in 20 attempts.
  Ended Load(std::uint64_t fence);
  // All steps below `step` are done, and the servers have the values after them: evaluates and
  // saves what is due. From then on the session has the run's values, which a server may lose.
  Ended Pause(std::int64_t step);
  // The session's values are about to be overwritten, in whole or in part.
  void ForgetValues() { has_values_ = false; }
  // Training has `ended` before the last step, and this process is about to exit. If the session
  // has the run's values, saves them unless that has failed already. Returns `ended`, or the
  // failure to save if that was a stop.
  LoopOutcome SaveKept(LoopOutcome ended);
  // The result is saved: says so to all servers.
  void Finish();

  // Not empty: why a server no longer has the values; to be reported once.
  std::string TakeLoss() { return std::exchange(loss_, {}); }

 private:
  Ended Restore();
  // `left`: as Reporter::StepRecorded takes it.
  Ended Record(const proto::StepRecord& record, int left);
  Ended Pull();
  Ended Evaluate();
  Ended LookAtServers();
  Ended CheckServers();
  Ended SaveAtPause(bool has_new_best);
  void FindBest();
  Ended SaveForServer();
  // Why the newest save has failed, if it would fail again: a newer process has the folder, for
  // example. OK if it has not failed, or may succeed yet.
  absl::Status RefusedSave() const;
  LoopOutcome End();
  std::int64_t NextPause() const;

  TrainLoop& loop_;
  ParameterClient& client_;
  const int summed_parts_;
  std::string loss_;
  std::uint64_t fence_ = 0;     // of the values on the servers; 0: not known
  std::uint64_t loaded_ = 0;    // the fence to report as loaded
  bool reports_until_ = false;  // the next report says where to pause
  bool has_values_ = false;     // the session has the values of the loop's state
  // Since the pause began, servers that were asked to stop have been let go: none has the values
  // any more, and they are saved here or cannot be.
  bool has_released_ = false;
  SteadyTime next_look_;  // at the servers, in an evaluation
};

}  // namespace lockstep::train
