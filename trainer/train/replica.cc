#include "trainer/train/replica.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "trainer/checkpoint/async_saver.h"
#include "trainer/checkpoint/store.h"
#include "trainer/core/cpu_quota.h"
#include "trainer/export/export_at_end.h"
#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/make_strategy.h"
#include "trainer/train/compute_device.h"
#include "trainer/train/generations.h"
#include "trainer/train/metrics_sender.h"
#include "trainer/train/parameter_server_pod.h"
#include "trainer/train/parameter_worker.h"
#include "trainer/train/reporter.h"
#include "trainer/train/session.h"
#include "trainer/train/snapshot.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

int ReplicaThreads(int processes_per_pod) {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  if (const auto quota = CpuQuota("/sys/fs/cgroup")) {
    cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  }
  return std::max(1, cores / std::max(1, processes_per_pod));
}

CheckpointOwner OwnerFor(const Identity& identity) {
  return {.job_uid = identity.job_uid,
          .attempt = identity.attempt,
          .pod_started = identity.incarnation.pod_started,
          .process_number = identity.incarnation.process_number};
}

namespace {

ModelWriter WriterFor(const Identity& identity) {
  return {.job_uid = identity.job_uid, .process = identity.incarnation};
}

// A leader that takes its state from its peers restores no checkpoint, but still reports the age of
// the newest one.
void ReportNewest(CheckpointStore& store, Reporter& reporter) {
  const auto newest = store.Newest();
  if (!newest.ok()) {
    LogWarning("the age of the newest checkpoint is not known",
               {{"reason", std::string(newest.status().message())}});
  } else if (*newest) {
    reporter.CheckpointFound((*newest)->step, (*newest)->saved);
  }
}

SessionOptions OptionsFor(const Identity& identity, const ReplicaDuties& duties,
                          const BackendOptions& device) {
  return {.training = duties.training,
          .data_seed = duties.data_seed,
          .world = identity.BatchParts(),
          .threads = device.threads,
          .backend = device.name,
          .device = device.device,
          .devices = device.devices,
          .falls_back_to_cpu = true,
          .update_site = duties.update_site,
          .rank = identity.RankOf(identity.local_rank),
          .stage = {.index = identity.StageOf(identity.RankOf(identity.local_rank)),
                    .count = identity.Stages()}};
}

// An error that may pass is one for the next process.
int FailToOpen(const absl::Status& status) {
  const LoopOutcome end = EndOfStore(status);
  return end.end == LoopEnd::kStorageRefused ? ExitCodeOfEnd(end) : FailWith(status);
}

// Returns the process's exit code.
int Train(const Identity& identity, bool is_variant, TrainLoop& loop) {
  if (identity.Traits().has_parameter_servers) {
    // Gradients go to the servers through the host, whatever has computed them.
    if (absl::Status reserved = loop.session.buffer().Reserve(); !reserved.ok()) {
      return FailWith(reserved);
    }
    return RunParameterWorker(identity, loop);
  }
  const int exit_code = RunGenerations(loop);
  if (!is_variant || exit_code != api::kExitDiverged) return exit_code;
  // A result like any other: the other variants go on.
  loop.reporter.Diverged();
  return api::kExitDone;
}

ReplicaEnd EndOf(int exit_code, const Rendezvous& rendezvous) {
  if (exit_code != api::kExitPreempted) return {exit_code};
  return {exit_code, rendezvous.NewWorkers()};
}

}  // namespace

ReplicaEnd RunReplica(const Identity& identity, const Clock& clock) {
  if (identity.role == api::Role::kParameterServer) {
    return {RunParameterServerPod(identity, ReplicaThreads(1), clock)};
  }
  // Until it joins, this process has nothing that others lack.
  std::optional<ExitAtStopSignal> exits(std::in_place, api::kExitPreempted, "the start");
  const absl::StatusOr<ReplicaDuties> duties = DutiesOf(identity);
  if (!duties.ok()) return {FailWith(duties.status())};
  const BackendOptions device = DeviceOf(identity, ReplicaThreads(identity.processes_per_pod));
  // Outlives the rest: metrics also cover hangs before the first step and after the last.
  MetricsSender sender(clock, ProcessEnv, identity.RankOf(identity.local_rank), identity.World());
  const auto session = Session::Create(OptionsFor(identity, *duties, device));
  if (!session.ok()) return {FailWith(session.status())};
  const auto strategy = MakeStrategy(identity, {.buffer = (*session)->buffer(),
                                                .layer_starts = (*session)->LayerStarts(),
                                                .sums = (*session)->device_sums(),
                                                .root_memory = (*session)->root_memory(),
                                                .traffic = (*session)->stage_traffic()});
  if (!strategy.ok()) return {FailWith(strategy.status())};

  std::unique_ptr<CheckpointStore> store;
  std::unique_ptr<AsyncSaver> saver;
  const api::CheckpointSpec& checkpoint = duties->training.checkpoint;
  if (duties->saves && !checkpoint.directory.empty()) {
    auto opened = CheckpointStore::Open(RealFileSystem(), checkpoint.directory, checkpoint.keep,
                                        OwnerFor(identity));
    if (!opened.ok()) return {FailToOpen(opened.status())};
    store = *std::move(opened);
    saver = std::make_unique<AsyncSaver>(*store);
  }
  if (duties->saves) {
    const absl::Status prepared = PrepareExport(checkpoint.export_to, ModelBytes(**session),
                                                WriterFor(identity), RealFileSystem());
    if (!prepared.ok()) return {FailToOpen(prepared)};
  }

  const auto rendezvous = MakeRendezvous(identity, clock);
  rendezvous->OnGenerationEnd(
      [&](std::uint64_t generation, const std::string&) { (*strategy)->Abort(generation); });
  Reporter reporter(**session, *rendezvous, sender, clock, ProcessEnv);
  if (store != nullptr) ReportNewest(*store, reporter);
  TrainLoop loop{.session = **session,
                 .strategy = **strategy,
                 .rendezvous = *rendezvous,
                 .store = store.get(),
                 .saver = saver.get(),
                 .reporter = reporter,
                 .phases = sender.phases(),
                 .clock = clock,
                 .writer = WriterFor(identity)};
  exits.reset();
  return EndOf(Train(identity, duties->variant.has_value(), loop), *rendezvous);
}

}  // namespace lockstep::train
