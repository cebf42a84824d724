// A rank as an object of a test: what a replica process holds, with its group in other threads.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/status.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "tests/support/fake_clock.h"
#include "tests/support/local_rendezvous.h"
#include "tests/support/temp_directory.h"
#include "trainer/check/device_array.h"
#include "trainer/check/training_state.h"
#include "trainer/train/train_loop.h"

namespace lockstep::train {

// Small, but with everything that could tell one rank from two but the statistics of a batch:
// dropout and a short last batch.
inline api::TrainingSpec SmallTraining() {
  api::TrainingSpec training;
  training.model.layers = api::Json::array(
      {{{"type", "Conv2D"}, {"filters", 4}, {"kernelSize", 3}, {"activation", "relu"}},
       {{"type", "MaxPooling2D"}},
       {{"type", "Flatten"}},
       {{"type", "Dropout"}, {"rate", 0.25}},
       {{"type", "Dense"}, {"units", 3}}});
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = api::SyntheticSpec{
      .train_examples = 70, .test_examples = 33, .shape = {1, 8, 8}, .classes = 3};
  training.batch_size.global = 16;
  training.epochs = 4;
  training.optimizer.learning_rate = 0.01;
  return training;
}

// Trains in earnest, but so that the run stops after `evaluations` of its four epochs: none
// improves enough on the first.
inline api::TrainingSpec StoppingTraining(int evaluations = 3) {
  api::TrainingSpec training = SmallTraining();
  training.early_stopping = api::EarlyStoppingSpec{.patience = evaluations - 1, .min_delta = 100};
  return training;
}

// The same, but the run ends with the model of that first evaluation, after five steps.
inline api::TrainingSpec RestoringTraining(int evaluations = 3) {
  api::TrainingSpec training = StoppingTraining(evaluations);
  training.early_stopping->restore_best = true;
  return training;
}

// A host's device, and two with a queue and memory of their own. The first two compute the same
// bits.
inline const std::vector<std::string> kDevices = {"reference", "async-reference", "cuda"};

// Ranks on "cuda" share a GPU and so sum through the host; on this, each has its own, and NCCL
// sums.
inline const std::string kOwnGpus = "cuda-nccl";
inline const std::vector<std::string> kRankDevices = {"reference", "async-reference", "cuda",
                                                      kOwnGpus};
inline std::string BackendOf(const std::string& device) {
  return device == kOwnGpus ? "cuda" : device;
}
inline const bool kHasGpus = ::setenv("CUDA_VISIBLE_DEVICES", "0,1,2", /*overwrite=*/1) == 0;

// A rendezvous client that calls `at_step` each time its rank starts a step.
class Hooked final : public Rendezvous {
 public:
  Hooked(std::unique_ptr<Rendezvous> inner, std::function<void(int)> at_step)
      : inner_(std::move(inner)), at_step_(std::move(at_step)) {}
  absl::StatusOr<Membership> Join(std::int64_t step, const std::string& fingerprint) override {
    if (!join_error.ok() && step >= 0) return join_error;
    return inner_->Join(step, fingerprint);
  }
  void WithholdAddress() override { withholds_address = true; }
  void OnGenerationEnd(EndCallback callback) override {
    inner_->OnGenerationEnd(std::move(callback));
  }
  bool LostMember() const override { return lost_member || inner_->LostMember(); }
  KeyValueStore& store() override { return inner_->store(); }
  void Report(const api::Progress& progress) override { inner_->Report(progress); }
  void SetActivity(api::Activity activity) override {
    ++activities[activity];
    at_activity(activity);
    inner_->SetActivity(activity);
  }
  void SetStepPart(api::StepPart part) override {
    step_parts.push_back(part);
    inner_->SetStepPart(part);
  }
  bool StopRequested() const override {
    if (at_step_) at_step_(calls_++);
    return asked_to_stop || inner_->StopRequested();
  }
  std::optional<int> NewWorkers() const override {
    const int workers = new_workers;
    return workers > 0 ? std::optional(workers) : std::nullopt;
  }
  void SetKeepsWorkers(bool keeps) override { keeps_workers = keeps; }
  void StateIsSaved() override { has_said_saved = true; }
  absl::Status Finish() override {
    has_finished = true;
    return inner_->Finish();
  }

  std::atomic<bool> has_finished = false;
  bool lost_member = false;  // with each generation
  bool withholds_address = false;
  absl::Status join_error;                  // of every Join of a process with state
  std::atomic<bool> asked_to_stop = false;  // this rank's pod, and no other
  std::atomic<int> new_workers = 0;         // 0: as many as before
  std::atomic<bool> keeps_workers = false;  // until a checkpoint can be saved
  bool has_said_saved = false;
  std::map<api::Activity, int> activities;  // how often each was set
  std::vector<api::StepPart> step_parts;    // in the order in which they were set
  std::function<void(api::Activity)> at_activity = [](api::Activity) {};

 private:
  const std::unique_ptr<Rendezvous> inner_;
  const std::function<void(int)> at_step_;
  mutable int calls_ = 0;
};

// What may happen to a strategy: called before and after each of its operations; an error after it
// stands for a loss that struck late, when this rank's part was done.
struct StrategyFaults {
  enum class At { kConnect, kBroadcast, kSum, kStep, kParameters };
  std::function<absl::Status(At)> before = [](At) { return absl::OkStatus(); };
  std::function<absl::Status(At)> after = [](At) { return absl::OkStatus(); };
  std::function<void(std::span<float>)> change_sum = [](std::span<float>) {};
  bool trusts_addresses = true;
  // True: as where a device broadcasts the parameters, BroadcastShares does not tell what becomes
  // of them.
  bool hides_lost_parameters = false;
};

// After a broadcast of the parameters has failed, so do the sums of the generation's later steps;
// other collectives go on, as those of the hosts do when the GPUs' have failed.
class FaultyStrategy final : public Strategy {
 public:
  using At = StrategyFaults::At;
  FaultyStrategy(std::unique_ptr<Strategy> inner, StrategyFaults& faults)
      : inner_(std::move(inner)), faults_(faults) {}

  absl::Status Connect(const Membership& membership, KeyValueStore& store) override {
    failure_ = absl::OkStatus();
    return Around(At::kConnect, [&] { return inner_->Connect(membership, store); });
  }
  void Disconnect() override { inner_->Disconnect(); }
  bool TrustsAddresses() const override { return faults_.trusts_addresses; }
  absl::Status Broadcast(std::span<std::byte> data, int root) override {
    return Around(At::kBroadcast, [&] { return inner_->Broadcast(data, root); });
  }
  absl::Status Sum(std::span<float> data) override {
    const absl::Status status = Around(At::kSum, [&] { return inner_->Sum(data); });
    faults_.change_sum(data);
    return status;
  }
  void GradientsReady(std::int64_t begin) override { inner_->GradientsReady(begin); }
  absl::Status FinishGradients() override {
    LOCKSTEP_RETURN_IF_ERROR(failure_);
    return Around(At::kStep, [&] { return inner_->FinishGradients(); });
  }
  absl::Status BroadcastShares(std::span<const FlatRange> shares) override {
    failure_.Update(Around(At::kParameters, [&] { return inner_->BroadcastShares(shares); }));
    return faults_.hides_lost_parameters ? absl::OkStatus() : failure_;
  }
  absl::Status Barrier() override {
    return Around(At::kParameters, [&] { return inner_->Barrier(); });
  }
  absl::Status SumStatus() const override { return failure_.ok() ? inner_->SumStatus() : failure_; }
  void StepEnded(const absl::Status& summed) override { inner_->StepEnded(summed); }
  std::string CommunicatorName() const override { return inner_->CommunicatorName(); }
  StageGroups* stages() override { return inner_->stages(); }
  void Abort(std::uint64_t generation) override { inner_->Abort(generation); }

 private:
  absl::Status Around(At at, const std::function<absl::Status()>& operation) {
    LOCKSTEP_RETURN_IF_ERROR(faults_.before(at));
    LOCKSTEP_RETURN_IF_ERROR(operation());
    return faults_.after(at);
  }

  const std::unique_ptr<Strategy> inner_;
  StrategyFaults& faults_;
  absl::Status failure_;  // of this generation's broadcasts of parameters
};

// A rank's part in its group.
struct RankPlace {
  UpdateSite site = UpdateSite::kEveryRank;
  bool allow_shm = true;
  int stages = 1;
};

inline std::unique_ptr<Strategy> StrategyOf(Session& session, const RankPlace& place) {
  const CollectiveOptions options{.bind_address = "127.0.0.1",
                                  .allow_shm = place.allow_shm,
                                  .root_memory = session.root_memory(),
                                  .layer_starts = session.LayerStarts(),
                                  .bucket_floats = 64};
  if (place.stages == 1) {
    return MakeCollectiveStrategy(session.buffer(), options, session.device_sums());
  }
  return *MakePipelineStrategy(place.stages, session.stage_traffic(), session.buffer(), options,
                               session.device_sums());
}

// One process' worth of a rank.
struct Rank {
  Rank(const api::TrainingSpec& training, int world, LocalRendezvousHub& hub, int rank,
       std::function<void(int)> at_step = nullptr, const std::string& backend = "reference",
       CheckpointStore* store = nullptr, const RankPlace& place = {})
      : session(*Session::Create({.training = training,
                                  .world = world / place.stages,
                                  .backend = BackendOf(backend),
                                  .device = backend == kOwnGpus ? rank : 0,
                                  .update_site = place.site,
                                  .rank = rank,
                                  .stage = {rank % place.stages, place.stages}})),
        strategy(std::make_unique<FaultyStrategy>(StrategyOf(*session, place), faults)),
        rendezvous(hub.Client(rank), std::move(at_step)),
        sender(clock, NoEnv, rank, world),
        reporter(*session, rendezvous, sender, clock,
                 [this](const std::string& name) {
                   return name == api::kEnvTerminationMessagePath
                              ? std::optional(folder.At("message"))
                              : std::nullopt;
                 }),
        saver(store == nullptr ? nullptr : std::make_unique<AsyncSaver>(*store)),
        loop{.session = *session,
             .strategy = *strategy,
             .rendezvous = rendezvous,
             .store = store,
             .saver = saver.get(),
             .reporter = reporter,
             .phases = sender.phases(),
             .clock = clock} {
    rendezvous.OnGenerationEnd(
        [this](std::uint64_t generation, const std::string&) { strategy->Abort(generation); });
  }

  static std::optional<std::string> NoEnv(const std::string&) { return std::nullopt; }

  // Generation after generation; false if `die_with_generation` and the first one was cut short.
  bool Train(bool die_with_generation = false) {
    for (;;) {
      const auto membership = rendezvous.Join(loop.OfferedStep(), session->Fingerprint());
      if (!membership.ok()) ADD_FAILURE() << membership.status();
      const LoopOutcome outcome = loop.Run(*membership);
      if (outcome.end == LoopEnd::kDone && rendezvous.Finish().ok()) return true;
      if (die_with_generation) return false;
    }
  }
  LoopOutcome RunOnce() {
    const auto membership = rendezvous.Join(loop.OfferedStep(), session->Fingerprint());
    if (!membership.ok()) ADD_FAILURE() << membership.status();
    return loop.Run(*membership);
  }

  std::vector<float> State() { return TrainingState(*session); }

  // The container's termination message; empty if there is none.
  std::string Message() const {
    const std::string path = folder.At("message");
    return std::filesystem::exists(path) ? ReadTextFile(path) : "";
  }

  std::vector<float> Parameters() {
    return Download(session->backend(), session->model().parameters());
  }

  const TempDirectory folder;
  lockstep::testing::FakeClock clock;
  StrategyFaults faults;
  std::unique_ptr<Session> session;
  std::unique_ptr<Strategy> strategy;
  Hooked rendezvous;
  MetricsSender sender;
  Reporter reporter;
  std::unique_ptr<AsyncSaver> saver;
  TrainLoop loop;
};

// Opens the job's checkpoints in `folder` as the pod that started at `started` does. Of several
// pods, the one that started last owns them.
inline std::unique_ptr<CheckpointStore> OpenStore(const TempDirectory& folder,
                                                  std::int64_t started) {
  return *CheckpointStore::Open(RealFileSystem(), folder.path(), 2,
                                {.job_uid = "uid", .pod_started = started});
}

// For StrategyFaults: cuts the rank short at the sum of the given step, counted from 0.
inline std::function<absl::Status(StrategyFaults::At)> DiesInStep(std::int64_t step) {
  return [step, begun = std::int64_t{0}](StrategyFaults::At at) mutable {
    const bool now = at == StrategyFaults::At::kStep && begun++ == step;
    return now ? absl::UnavailableError("killed") : absl::OkStatus();
  };
}

}  // namespace lockstep::train
