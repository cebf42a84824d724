#include "trainer/train/replica.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "api/base/log.h"
#include "api/base/status.h"
#include "api/v1/names.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/checkpoint/store.h"
#include "trainer/control/rendezvous.h"
#include "trainer/control/stop_signal.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/cpu_quota.h"
#include "trainer/train/reporter.h"
#include "trainer/train/session.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {
namespace {

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return api::kExitDone;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      return api::kExitBadConfig;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kDataLoss:
      return api::kExitBadData;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
      return api::kExitStorage;
    case absl::StatusCode::kDeadlineExceeded:
      return api::kExitRendezvousDeadline;
    default:
      return api::kExitPeerLost;
  }
}

int Fail(const absl::Status& status) {
  const int exit_code = ExitCodeOf(status);
  LogError(std::string(status.message()), {{"exitCode", exit_code}});
  return exit_code;
}

bool IsGenerationOver(const absl::Status& status) {
  return status.code() == absl::StatusCode::kUnavailable ||
         status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kAborted;
}

int Diverged(std::int64_t step) {
  LogError(fmt::format("the loss is not finite at step {}: found NaN or infinity; lower "
                       "spec.training.optimizer.learningRate",
                       step),
           {{"exitCode", api::kExitDiverged}});
  return api::kExitDiverged;
}

absl::StatusOr<Membership> Join(TrainLoop& loop, const std::string& layout) {
  const PhaseTimer timer(loop.seconds.rendezvous);
  return loop.rendezvous.Join(loop.state.step, layout);
}

// What a replica does that could not join: it leaves.
int LeaveWithoutGroup(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kAlreadyExists) return api::kExitDone;
  if (status.code() != absl::StatusCode::kCancelled) return Fail(status);
  LogInfo("asked to stop while waiting for the other replicas",
          {{"reason", std::string(status.message())}});
  return api::kExitPreempted;
}

// Joins generation after generation until the run has ended on all ranks. Memory is kept: only the
// group of processes changes.
int RunGenerations(TrainLoop& loop) {
  const std::string layout = loop.session.model().LayoutFingerprint();
  for (;;) {
    const absl::StatusOr<Membership> membership = Join(loop, layout);
    if (!membership.ok()) return LeaveWithoutGroup(membership.status());
    const absl::StatusOr<LoopEnd> end = loop.Run(*membership);
    absl::Status status = end.status();
    if (end.ok()) {
      if (*end == LoopEnd::kDiverged) return Diverged(loop.state.step);
      // Saved at a step that all ranks agree on. Who was asked to stop leaves; the others keep
      // their memory and wait for a successor.
      if (*end == LoopEnd::kStopped && loop.rendezvous.StopRequested()) return api::kExitPreempted;
      if (*end == LoopEnd::kStopped) continue;
      status = loop.rendezvous.Finish();
      if (status.ok()) return api::kExitDone;
    }
    if (!IsGenerationOver(status)) return Fail(status);
    LogWarning("the generation has ended; joining the next one",
               {{"generation", membership->generation},
                {"step", loop.state.step},
                {"reason", std::string(status.message())}});
  }
}

CheckpointOwner OwnerFor(const Identity& identity) {
  return {.job_uid = identity.job_uid,
          .attempt = identity.attempt,
          .pod_started = identity.incarnation.pod_started,
          .process_started = identity.incarnation.process_started};
}

}  // namespace

int ReplicaThreads(int processes_per_pod) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const auto quota = CpuQuota("/sys/fs/cgroup")) {
    cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  }
  return std::max(1, cores / std::max(1, processes_per_pod));
}

int RunReplica(const Identity& identity, const Clock& clock) {
  const auto session = Session::Create({.training = identity.training,
                                        .world = identity.World(),
                                        .threads = ReplicaThreads(identity.processes_per_pod)});
  if (!session.ok()) return Fail(session.status());
  const auto strategy = MakeCollectiveStrategy(
      (*session)->buffer(),
      {.bind_address = identity.pod_ip,
       .allow_shm = identity.strategy.communication != api::Communication::kRing,
       .layer_starts = (*session)->LayerStarts(),
       .token = identity.token,
       .stop_requested = &StopSignalled});

  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<AsyncSaver> saver;
  const api::CheckpointSpec& checkpoint = identity.training.checkpoint;
  const bool leads = identity.IsLeader() && identity.local_rank == 0;
  if (leads && !checkpoint.directory.empty()) {
    auto opened = CheckpointStore::Open(RealFileSystem(), checkpoint.directory, checkpoint.keep,
                                        OwnerFor(identity));
    if (!opened.ok()) return Fail(opened.status());
    store = *std::move(opened);
    saver = std::make_unique<AsyncSaver>(*store);
  }

  const auto rendezvous = MakeRendezvousClient(identity, clock);
  rendezvous->OnGenerationEnd(
      [&](std::uint64_t generation, const std::string&) { strategy->Abort(generation); });
  Reporter reporter(**session, *rendezvous, clock, ProcessEnv);
  TrainLoop loop{.session = **session,
                 .strategy = *strategy,
                 .rendezvous = *rendezvous,
                 .store = store.get(),
                 .saver = saver.get(),
                 .reporter = reporter};
  return RunGenerations(loop);
}

}  // namespace lockstep::train
