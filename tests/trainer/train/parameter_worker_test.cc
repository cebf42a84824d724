// The leading process of a run with one parameter server, which is in the test's process.
#include "trainer/train/parameter_worker.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "tests/support/fault_file_system.h"
#include "tests/support/job_secret.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/train/rank.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/checkpoint/store.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/train/generations.h"

namespace lockstep::train {
namespace {

class ParameterWorkerTest : public ::testing::Test {
 protected:
  // Starts the server, or its successor at the same address.
  void StartServer() {
    server_.reset();
    shard_ = *Shard::Create(training_, *backend_);
    Serve();
  }
  // The server's connections break. It keeps the values, though it forgets who is here.
  void BreakConnections() {
    server_.reset();
    Serve();
  }
  void Serve() {
    ParameterServerOptions options{.index = 0,
                                   .address = address_,
                                   .job = "job",
                                   .token = api::JobToken(testing::kJobSecret),
                                   .tasks = {.leases = {.sync = sync_, .max_staleness = 16}},
                                   .stop_requested = [this] { return server_stops_.load(); }};
    options.make_content = [this](std::int64_t floats) { return make_content_(floats); };
    options.drain = Duration::zero();
    auto server = ParameterServer::Start(std::move(options), *shard_, clock_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  std::unique_ptr<Rank> MakeRank(std::function<void(int)> at_step = nullptr,
                                 CheckpointStore* store = nullptr) {
    return std::make_unique<Rank>(training_, 1, hub_, 0, std::move(at_step), "reference", store);
  }
  Caller Worker(int index) {
    Caller caller{.who = {}, .token = api::JobToken(testing::kJobSecret)};
    caller.who.set_job("job");
    caller.who.set_role("worker");
    caller.who.set_index(index);
    caller.who.set_process_number(++processes_);
    return caller;
  }
  // Worker 0 leads.
  LoopOutcome Run(Rank& rank, int index = 0) {
    ParameterWorkerOptions options{.client = {.servers = {address_}, .caller = Worker(index)},
                                   .owns = index == 0,
                                   .sync = sync_};
    options.client.stop_requested = [&] {
      while_server_is_away_(rank);
      return rank.rendezvous.asked_to_stop.load();
    };
    ParameterWorker worker(std::move(options), rank.loop);
    EXPECT_TRUE(worker.Join().ok());
    return worker.Run();
  }

  // A server that nobody has loaded yet soon knows that the leading process is here.
  void ExpectLeaderAt(const std::string& server, const std::string& fingerprint) {
    Caller caller = Worker(2);
    caller.who.set_fingerprint(fingerprint);
    TaskLink link(server, caller);
    EXPECT_TRUE(link.Connect().ok());
    proto::Next next;
    next.set_wants_task(true);
    bool is_here = false;
    for (int i = 0; i < 20 && !is_here; ++i) {  // each takes half a second
      const auto reply = link.Next(next);
      is_here = reply.ok() && reply->has_wait() && reply->wait().missing().empty();
    }
    EXPECT_TRUE(is_here);
  }

  // Returns a rank that is asked to stop, rather than to train without end, after so many questions
  // whether it is: about five a step.
  std::unique_ptr<Rank> MakeImpatientRank() {
    auto rank = MakeRank([this](int call) { impatient_->asked_to_stop = call > 1000; });
    impatient_ = &rank->rendezvous;
    return rank;
  }

  api::TrainingSpec training_ = SmallTraining();  // 20 steps, 4 epochs
  bool sync_ = false;
  Hooked* impatient_ = nullptr;
  const SystemClock clock_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  LocalRendezvousHub hub_{1};
  std::atomic<bool> server_stops_ = false;
  std::function<void(Rank&)> while_server_is_away_ = [](Rank&) {};
  MakeContent make_content_ = &SharedContent::Create;  // of the server, for what is loaded
  std::string address_ = "127.0.0.1:0";
  std::atomic<int> processes_ = 0;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ParameterWorkerTest, JoinsTheNextGenerationWhenOneEnds) {
  StartServer();
  const auto rank = MakeRank([this](int call) {
    if (call == 3) hub_.EndGeneration("a silence of five seconds");
  });
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(hub_.generation(), 2u);
}

// A successor of this process would not find the servers.
TEST_F(ParameterWorkerTest, ItsSupervisorHearsOfTheRunsEndBeforeTheServers) {
  StartServer();
  const auto rank = MakeRank();
  const std::jthread watch([&] {
    EXPECT_EQ(server_->WaitForEnd(), ParameterServer::End::kFinished);
    EXPECT_TRUE(rank->rendezvous.has_finished);
  });
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
}

TEST_F(ParameterWorkerTest, ItsSuccessorDoesWhatWasDueInThePauseInWhichItLeft) {
  StartServer();
  Rank* first = nullptr;
  const auto rank = MakeRank([&first](int) {
    const bool evaluates = first->rendezvous.activities[api::Activity::kEvaluation] > 0;
    if (evaluates) first->rendezvous.asked_to_stop = true;
  });
  first = rank.get();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kStopped);
  EXPECT_EQ(rank->loop.state.step, 5);
  ASSERT_EQ(rank->loop.state.evaluated_step, -1);
  const auto successor = MakeRank();
  EXPECT_EQ(Run(*successor).end, LoopEnd::kDone);
  EXPECT_EQ(successor->rendezvous.activities[api::Activity::kEvaluation], 4) << "of 4 epochs";
}

// The servers keep the values, so the next process goes on from them.
TEST_F(ParameterWorkerTest, AStopWhoseStateCannotBeSavedIsNotFinal) {
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  files.FillDiskInOperation(1, /*stays_full=*/true);
  StartServer();
  Rank* first = nullptr;
  const auto rank =
      MakeRank([&first](int) { first->rendezvous.asked_to_stop = first->loop.state.step >= 7; },
               store.get());
  first = rank.get();
  const LoopOutcome outcome = Run(*rank);
  EXPECT_EQ(outcome.end, LoopEnd::kStopped);
  EXPECT_TRUE(absl::IsResourceExhausted(outcome.reason)) << outcome.reason;
  EXPECT_EQ(ExitCodeOfEnd(outcome), api::kExitPeerLost);
  files.Reboot(FaultFileSystem::kKeepAll);
  const auto successor = MakeRank(nullptr, store.get());
  EXPECT_EQ(Run(*successor).end, LoopEnd::kDone);
  EXPECT_EQ(successor->saver->outcome().last_saved_step, 20);
}

// The process is started again in its place, where that of a deadline is not.
TEST_F(ParameterWorkerTest, AnOutageOfAServerIsNoTimeOfAStep) {
  StartServer();
  const auto rank = MakeRank([this](int call) {
    if (call == 40) server_.reset();
  });
  while_server_is_away_ = [this](Rank& leading) {
    if (server_ != nullptr) return;
    leading.clock.Advance(std::chrono::minutes(1));
    Serve();
  };
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  PhaseTimes times = rank->loop.phases.Read();
  EXPECT_GE(times.Seconds(Phase::kRendezvous), 60);
  EXPECT_LT(times.Seconds(Phase::kCommunication), 60);
}

TEST_F(ParameterWorkerTest, ALackOfMemoryThatDoesNotPassEndsTheProcessRetryably) {
  StartServer();
  make_content_ = [](std::int64_t) { return absl::ResourceExhaustedError("no memory"); };
  while_server_is_away_ = [](Rank& leading) { leading.clock.Advance(std::chrono::minutes(1)); };
  const LoopOutcome outcome = Run(*MakeRank());
  EXPECT_EQ(outcome.reason.message(), "ps 0: no memory");
  EXPECT_EQ(ExitCodeOfEnd(outcome), api::kExitPeerLost);
}

// The server knows which values are a tensor, and scales its step by the norms of that tensor.
TEST_F(ParameterWorkerTest, LarsUpdatesTensorsAsWithoutServers) {
  training_.optimizer = {.name = "LARS",
                         .learning_rate = 1,
                         .momentum = 0.9,
                         .trust_coefficient = 0.01,
                         .weight_decay = 1e-3,
                         .weight_decay_exclude = {"bias"}};
  StartServer();
  const auto rank = MakeRank();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  LocalRendezvousHub hub(1);
  Rank alone(training_, 1, hub, 0, nullptr, "reference");
  EXPECT_TRUE(alone.Train());
  const std::vector<float> found = rank->Parameters(), expected = alone.Parameters();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-6) << i;
}

TEST_F(ParameterWorkerTest, OneWorkerInStepTrainsOnTheAugmentedSamplesOfARunWithoutServers) {
  training_.dataset.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal,
                                               .random_crop = api::RandomCropSpec{2},
                                               .cutout = api::CutoutSpec{3}};
  LocalRendezvousHub other_hub(1);
  Rank mirrored(training_, 1, other_hub, 0);
  EXPECT_TRUE(mirrored.Train());
  sync_ = true;
  StartServer();
  const auto rank = MakeRank();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(rank->Parameters(), mirrored.Parameters());
  EXPECT_EQ(rank->loop.state.step, mirrored.loop.state.step);
  EXPECT_EQ(rank->loop.state.sums.correct, mirrored.loop.state.sums.correct);
}

// Two workers' parts cut pairs of samples, whose partners are in the other's part.
TEST_F(ParameterWorkerTest, WorkersMixTheSamplesOfARunWithoutServers) {
  training_.dataset.synthetic->train_examples = 69;
  training_.dataset.augment = api::AugmentSpec{.random_flip = api::RandomFlip::kHorizontal,
                                               .mix_up = api::MixUpSpec{.alpha = 0.8}};
  training_.batch_size.global = 14;
  LocalRendezvousHub other_hub(1);
  Rank mirrored(training_, 1, other_hub, 0);
  EXPECT_TRUE(mirrored.Train());
  api::TrainingSpec plain = training_;
  plain.dataset.augment->mix_up.reset();
  LocalRendezvousHub plain_hub(1);
  Rank unmixed(plain, 1, plain_hub, 0);
  EXPECT_TRUE(unmixed.Train());
  EXPECT_NE(unmixed.Parameters(), mirrored.Parameters());
  for (const bool sync : {false, true}) {
    SCOPED_TRACE(sync ? "Sync" : "Async");
    sync_ = sync;
    StartServer();
    const auto one = MakeRank();
    EXPECT_EQ(Run(*one).end, LoopEnd::kDone);
    EXPECT_EQ(one->Parameters(), mirrored.Parameters());
    EXPECT_EQ(one->loop.state.ledger.lost_total() + one->loop.state.ledger.duplicated_total(), 0);
  }
  StartServer();
  Rank two(training_, 2, hub_, 0);  // computes both workers' parts
  EXPECT_EQ(Run(two).end, LoopEnd::kDone);
  const std::vector<float> found = two.Parameters(), expected = mirrored.Parameters();
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

// The servers average their values; the leading process evaluates and exports what it pulls.
TEST_F(ParameterWorkerTest, TheServersAverageTheParametersAsWithoutServers) {
  const TempDirectory out;
  training_.ema = api::EmaSpec{.decay = 0.75};
  training_.checkpoint.export_to = out.At("mirrored.safetensors");
  LocalRendezvousHub other_hub(1);
  Rank mirrored(training_, 1, other_hub, 0);
  EXPECT_TRUE(mirrored.Train());
  training_.checkpoint.export_to = out.At("model.safetensors");
  sync_ = true;
  StartServer();
  const auto rank = MakeRank();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(rank->State(), mirrored.State());
  EXPECT_EQ(rank->loop.state.test_loss, mirrored.loop.state.test_loss);
  EXPECT_EQ(ReadTextFile(out.At("model.safetensors")),
            ReadTextFile(out.At("mirrored.safetensors")));
}

// The other worker leaves with its part, as in a suspension, where there may be no time for it.
TEST_F(ParameterWorkerTest, AStopInSyncLeavesTheStepThatHasBegunToTheSuccessor) {
  sync_ = true;
  StartServer();
  Rank* leading = nullptr;
  Rank first(training_, 2, hub_, 0, [&](int) {
    if (leading->loop.state.step != 7 || leading->rendezvous.asked_to_stop) return;
    Caller other = Worker(1);
    other.who.set_fingerprint(leading->session->Fingerprint());
    TaskLink link(address_, other);
    EXPECT_TRUE(link.Connect().ok());
    proto::Next next;
    next.set_wants_task(true);
    const auto reply = link.Next(next);
    EXPECT_TRUE(reply.ok() && reply->task().step() == 7 && reply->task().part() == 1);
    leading->rendezvous.asked_to_stop = true;
  });
  leading = &first;
  EXPECT_EQ(Run(first).end, LoopEnd::kStopped);
  EXPECT_EQ(first.loop.state.step, 7);
  Rank successor(training_, 2, hub_, 0);
  EXPECT_EQ(Run(successor).end, LoopEnd::kDone);
  EXPECT_EQ(successor.loop.state.step, 20);
  EXPECT_EQ(successor.loop.state.ledger.duplicated_total(), 0);
  EXPECT_EQ(shard_->counts().staleness.counts[0], 40) << "each part was taken once";
  EXPECT_EQ(shard_->counts().dropped, 0) << "and computed once";
  StartServer();
  LocalRendezvousHub other_hub(1);
  Rank undisturbed(training_, 2, other_hub, 0);
  EXPECT_EQ(Run(undisturbed).end, LoopEnd::kDone);
  EXPECT_EQ(successor.Parameters(), undisturbed.Parameters());
}

// The job has been created again with fewer steps, and has found the checkpoints of its
// predecessor.
TEST_F(ParameterWorkerTest, ACheckpointBeyondTheLastStepEndsTheRun) {
  const TempDirectory checkpoints;
  StartServer();
  EXPECT_EQ(Run(*MakeRank(nullptr, OpenStore(checkpoints, 1).get())).end, LoopEnd::kDone);
  training_.epochs = 2;
  server_.reset();  // none is needed
  while_server_is_away_ = [](Rank& leading) { leading.rendezvous.asked_to_stop = true; };
  const auto store = OpenStore(checkpoints, 2);
  const auto rank = MakeRank(nullptr, store.get());
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(rank->loop.state.step, 20);
  EXPECT_EQ(rank->saver->outcome().last_saved_step, -1);
}

class StoppingServersTest : public ParameterWorkerTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    training_ = StoppingTraining(3);
    sync_ = GetParam();
    StartServer();
  }
};
INSTANTIATE_TEST_SUITE_P(AsyncAndSync, StoppingServersTest, ::testing::Bool());

TEST_P(StoppingServersTest, ARunThatStopsEarlyEndsForTheServersAndNeedsNoneIfItIsStartedAgain) {
  const TempDirectory checkpoints;
  {
    const auto store = OpenStore(checkpoints, 1);
    const auto rank = MakeRank(nullptr, store.get());
    EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
    EXPECT_EQ(rank->loop.state.step, 15);
    EXPECT_EQ(rank->saver->outcome().last_saved_step, 15);
    EXPECT_EQ(server_->WaitForEnd(), ParameterServer::End::kFinished);
  }
  server_.reset();
  while_server_is_away_ = [](Rank& leading) { leading.rendezvous.asked_to_stop = true; };
  const auto store = OpenStore(checkpoints, 2);
  const auto rank = MakeRank(nullptr, store.get());
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(rank->loop.state.step, 15);
  EXPECT_EQ(rank->saver->outcome().last_saved_step, -1);
}

TEST_P(StoppingServersTest, TheLeadingProcessesSuccessorCountsItsEvaluationsToo) {
  Rank* first = nullptr;
  const auto rank =
      MakeRank([&first](int) { first->rendezvous.asked_to_stop = first->loop.state.step >= 12; });
  first = rank.get();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kStopped);
  EXPECT_EQ(rank->loop.state.best.without_improvement, 1);
  const auto successor = MakeRank();
  EXPECT_EQ(Run(*successor).end, LoopEnd::kDone);
  EXPECT_EQ(successor->loop.state.step, 15);
}

// The best model is only in the memory of the leading process, and in its checkpoints.
class RestoringServersTest : public ParameterWorkerTest,
                             public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    sync_ = GetParam();
    training_.epochs = 1;
    training_.checkpoint.export_to = folder_.At("best.safetensors");
    StartServer();
    EXPECT_EQ(Run(*MakeRank()).end, LoopEnd::kDone);
    best_ = ReadTextFile(training_.checkpoint.export_to);
    training_ = RestoringTraining(3);
    training_.checkpoint.every_steps = 0;
    training_.checkpoint.export_to = folder_.At("model.safetensors");
    StartServer();
  }
  // Asks a leading process to stop after 8 steps, once `at_end` is done, and then runs its
  // successor to the end. Returns what both have logged.
  std::string RunTwo(
      CheckpointStore* first_store, CheckpointStore* store,
      const std::function<void(Rank&)>& at_end, const std::function<void()>& between = [] {}) {
    ::testing::internal::CaptureStderr();
    Rank* leading = nullptr;
    const auto first = MakeRank(
        [&](int) {
          if (leading->loop.state.step < 8 || leading->rendezvous.asked_to_stop) return;
          at_end(*leading);
          leading->rendezvous.asked_to_stop = true;
        },
        first_store);
    leading = first.get();
    EXPECT_EQ(Run(*first).end, LoopEnd::kStopped);
    EXPECT_EQ(first->loop.state.best.step, 5);
    between();
    const auto successor = MakeRank(nullptr, store);
    EXPECT_EQ(Run(*successor).end, LoopEnd::kDone);
    EXPECT_EQ(successor->loop.state.step, 15);
    EXPECT_EQ(successor->loop.state.best.step, 5);
    EXPECT_EQ(ReadTextFile(training_.checkpoint.export_to), best_);
    return ::testing::internal::GetCapturedStderr();
  }

  const TempDirectory folder_;
  std::string best_;  // the file
};
INSTANTIATE_TEST_SUITE_P(AsyncAndSync, RestoringServersTest, ::testing::Bool());

TEST_P(RestoringServersTest, TheLeadingProcessExportsTheBestModel) {
  const TempDirectory checkpoints;
  EXPECT_EQ(Run(*MakeRank(nullptr, OpenStore(checkpoints, 1).get())).end, LoopEnd::kDone);
  EXPECT_EQ(ReadTextFile(training_.checkpoint.export_to), best_);
  EXPECT_EQ(ReadTextFile(checkpoints.At("step-00000015/model.safetensors")), best_);
}

// It was saved as soon as it was the best one, though no checkpoint was due.
TEST_P(RestoringServersTest, ASuccessorFindsItInTheNewestCheckpoint) {
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  const std::string log = RunTwo(
      store.get(), store.get(),
      [&](Rank& leading) {
        EXPECT_TRUE(leading.saver->Wait().ok());
        EXPECT_EQ(leading.saver->outcome().last_saved_step, 5);
        files.FillDiskInOperation(1, /*stays_full=*/true);
      },
      [&] { files.Reboot(FaultFileSystem::kKeepAll); });
  EXPECT_EQ(log.find("the values are lost"), std::string::npos) << log;
}

TEST_P(RestoringServersTest, WhereItIsInNoCheckpointTheRunGoesBack) {
  const TempDirectory checkpoints;
  const std::string log = RunTwo(nullptr, OpenStore(checkpoints, 2).get(), [](Rank&) {});
  EXPECT_NE(log.find("was in the memory of a leading process that has ended"), std::string::npos)
      << log;
}

// The disk fails once the newest checkpoint is found: that of the last step, or none.
class UnreadableCheckpointTest : public ParameterWorkerTest,
                                 public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    StartServer();
    if (!GetParam()) return;
    EXPECT_EQ(Run(*MakeRank(nullptr, Open(1).get())).end, LoopEnd::kDone);
    server_.reset();  // none is needed
  }
  // Runs to the end. So many reads fail, the first of each attempt.
  LoopOutcome RunWithFailures(int failures) {
    const auto store = Open(2);
    const int before = files_.reads();
    EXPECT_TRUE(store->Newest().ok());
    const int found = 2 * files_.reads() - before;  // once the run has found it, too
    files_.FailInRead(found - files_.reads() + 1);
    Rank* leading = nullptr;
    const auto rank = MakeRank(
        [&](int) {
          if (leading->loop.state.step >= 0) return;
          leading->clock.Advance(std::chrono::seconds(1));
          if (files_.reads() < found + failures) files_.FailInRead(1);
        },
        store.get());
    leading = rank.get();
    LoopOutcome outcome = Run(*rank);
    EXPECT_EQ(rank->loop.state.step, outcome.end == LoopEnd::kDone ? 20 : -1);
    failed_ = files_.reads() - found;
    return outcome;
  }

  int failed_ = 0;  // reads, if all have failed

 private:
  std::unique_ptr<CheckpointStore> Open(std::int64_t started) {
    return *CheckpointStore::Open(files_, "/checkpoints", 3,
                                  {.job_uid = "", .pod_started = started});
  }

  FaultFileSystem files_;
};

INSTANTIATE_TEST_SUITE_P(OfAFinishedRun, UnreadableCheckpointTest, ::testing::Bool());

TEST_P(UnreadableCheckpointTest, IsReadOnceTheDiskHasRecovered) {
  EXPECT_EQ(RunWithFailures(3).end, LoopEnd::kDone);
}

TEST_P(UnreadableCheckpointTest, EndsTheRunAfterTwentyAttempts) {
  const LoopOutcome outcome = RunWithFailures(1000);
  EXPECT_EQ(outcome.end, LoopEnd::kStorage) << outcome.reason;
  EXPECT_EQ(failed_, 20);
}

TEST_F(ParameterWorkerTest, TheLeadingProcessExportsWhatTheServersHave) {
  const TempDirectory out, checkpoints;
  const std::string file = training_.checkpoint.export_to = out.At("model.safetensors");
  StartServer();
  EXPECT_EQ(Run(*MakeRank(nullptr, OpenStore(checkpoints, 1).get())).end, LoopEnd::kDone);
  const std::string exported = ReadTextFile(file);
  EXPECT_EQ(exported, ReadTextFile(checkpoints.At("step-00000020/model.safetensors")));
  std::filesystem::remove(file);
  server_.reset();  // the successor of a process that has died before its export needs none
  EXPECT_EQ(Run(*MakeRank(nullptr, OpenStore(checkpoints, 2).get())).end, LoopEnd::kDone);
  EXPECT_EQ(ReadTextFile(file), exported);
}

TEST_F(ParameterWorkerTest, ValuesBeyondTheLastStepEndTheRun) {
  StartServer();
  Rank* first = nullptr;
  const auto rank =
      MakeRank([&first](int) { first->rendezvous.asked_to_stop = first->loop.state.step >= 13; });
  first = rank.get();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kStopped);
  training_.epochs = 2;
  const auto successor = MakeImpatientRank();
  EXPECT_EQ(Run(*successor).end, LoopEnd::kDone);
  EXPECT_EQ(successor->loop.state.step, rank->loop.state.step);
  EXPECT_EQ(successor->loop.state.evaluated_step, rank->loop.state.step);
}

TEST_F(ParameterWorkerTest, EpochsWithoutEndBetweenEvaluationsPauseTheRunAtItsEndOnly) {
  training_.dataset.synthetic->train_examples = 1025;
  training_.batch_size.global = 1;  // 1025 steps in an epoch
  training_.epochs = std::nullopt;
  training_.steps = 10;
  training_.evaluation.every_epochs = (std::int64_t{1} << 53) - 1;
  StartServer();
  const auto rank = MakeImpatientRank();
  EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
  EXPECT_EQ(rank->loop.state.step, 10);
  EXPECT_EQ(rank->loop.state.evaluated_step, 10);
}

// Each step is an epoch and so a planned pause, at which no checkpoint is due. After 20 of 40
// steps and their evaluation, the server is asked to stop, or before, what `in_evaluation_` does
// happens to it; its successor comes when it ends.
class ServerThatStopsTest : public ParameterWorkerTest {
 protected:
  void SetUp() override {
    training_.dataset.synthetic->train_examples = 16;
    training_.epochs = 40;
    training_.checkpoint.every_steps = 0;
    StartServer();
  }
  std::unique_ptr<Rank> MakeWatchedRank(CheckpointStore* store) {
    auto rank = MakeRank([this](int) { Look(*leading_); }, store);
    leading_ = rank.get();
    return rank;
  }
  std::unique_ptr<Rank> RunToTheEnd(CheckpointStore* store) {
    auto rank = MakeWatchedRank(store);
    EXPECT_EQ(Run(*rank).end, LoopEnd::kDone);
    EXPECT_EQ(rank->loop.state.step, 40);
    EXPECT_EQ(rank->loop.state.ledger.duplicated_total(), 0);
    return rank;
  }

  // The disk is full when the server's values are to be saved.
  void FillDiskBeforeSave(FaultFileSystem& files) {
    before_save_ = [&](Rank& leading) {
      EXPECT_TRUE(leading.saver->Wait().ok());
      files.FillDiskInOperation(1, /*stays_full=*/true);
    };
  }

  // The server stops, its values cannot be saved, and then the disk has room again.
  std::unique_ptr<Rank> RunToAnEarlyEnd(LoopEnd end) {
    training_.checkpoint.every_steps = 1;
    FaultFileSystem files;
    const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
    FillDiskBeforeSave(files);
    before_successor_ = [&] { files.Reboot(FaultFileSystem::kKeepAll); };
    auto rank = MakeWatchedRank(store.get());
    EXPECT_EQ(Run(*rank).end, end);
    const auto newest = store->Newest();
    EXPECT_TRUE(newest.ok() && *newest) << newest.status();
    EXPECT_EQ(newest.ok() && *newest ? (*newest)->step : -1, rank->loop.state.step);
    return rank;
  }

  Rank* leading_ = nullptr;
  bool has_successor_ = true, leader_stops_before_load_ = false;  // of the successor
  bool successor_is_lost_ = false;          // once it is loaded, and before it hears that all are
  std::function<void(Rank&)> before_save_;  // for the server that stops
  std::function<void()> before_successor_ = [] {};
  // Called after each batch of the evaluation after 20 steps, with the number of calls before.
  std::function<void(Rank&, int)> in_evaluation_;

  void AskServerToStop() {
    server_stops_ = true;
    successor_ = std::jthread([this] {
      EXPECT_EQ(server_->WaitForEnd(), ParameterServer::End::kStopped);
      before_successor_();
      server_stops_ = false;
      if (has_successor_) {
        StartServer();
      } else {
        server_.reset();
      }
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      ended_.notify_all();
    });
  }
  void WaitForItsEnd() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(ended_.wait_for(lock, testing::Slowed(std::chrono::seconds(60)), [this] {
      return has_ended_;
    })) << "the server waits for the evaluation";
  }

 private:
  // Called by the leading process several times in each step, and in each evaluation.
  void Look(Rank& leading) {
    const std::int64_t step = leading.loop.state.step;
    EXPECT_GE(step, furthest_) << "steps are lost";
    furthest_ = std::max(furthest_, step);
    if (in_evaluation_) {
      const bool evaluates = leading.rendezvous.activities[api::Activity::kEvaluation] >= 20 &&
                             leading.loop.state.evaluated_step == 19;
      if (step == 20 && evaluates) in_evaluation_(leading, batches_++);
      return;
    }
    const bool is_after_pause = leading.loop.state.evaluated_step == 20;
    if (step == 20 && is_after_pause && !successor_.joinable()) AskServerToStop();
    const bool has_evaluated = leading.loop.state.evaluated_step == 21;
    if (leader_stops_before_load_ && has_evaluated) leading.rendezvous.asked_to_stop = true;
    if (successor_is_lost_ && HasSuccessor() && shard_->fence() != 0) {
      successor_is_lost_ = false;
      StartServer();
    }
    if (step == 21 && before_save_) std::exchange(before_save_, nullptr)(leading);
    if (step != 21 || leading.rendezvous.activities[api::Activity::kEvaluation] != 21) return;
    WaitForItsEnd();
  }
  bool HasSuccessor() {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }

  std::int64_t furthest_ = -1;
  int batches_ = 0;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;  // guarded by mutex_
  std::jthread successor_;
};

TEST_F(ServerThatStopsTest, HasItsValuesSavedBeforeItEndsAndBeforeAnEvaluation) {
  const TempDirectory checkpoints;
  const auto store = *CheckpointStore::Open(RealFileSystem(), checkpoints.path(), 3, {});
  RunToTheEnd(store.get());
}

TEST_F(ServerThatStopsTest, HasItsValuesKeptByTheLeadingProcessIfThereAreNoCheckpoints) {
  RunToTheEnd(nullptr);
}

// The successor's successor orders a load, too.
TEST_F(ServerThatStopsTest, HasItsValuesKeptUntilTheRunGoesOnFromThem) {
  successor_is_lost_ = true;
  RunToTheEnd(nullptr);
  EXPECT_FALSE(successor_is_lost_);
}

TEST_F(ServerThatStopsTest, HasItsValuesKeptByTheLeadingProcessIfTheyCannotBeSaved) {
  training_.checkpoint.every_steps = 1;
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  FillDiskBeforeSave(files);
  before_successor_ = [&] { files.Reboot(FaultFileSystem::kKeepAll); };
  const auto rank = RunToTheEnd(store.get());
  EXPECT_EQ(rank->saver->outcome().failures, 1) << "it is not saved twice";
}

// The leading process alone has the values, and its successor finds what it leaves.
TEST_F(ServerThatStopsTest, HasItsValuesSavedWhenTheLeadingProcessStopsWhileItIsAway) {
  has_successor_ = false;
  while_server_is_away_ = [](Rank& leading) { leading.rendezvous.asked_to_stop = true; };
  RunToAnEarlyEnd(LoopEnd::kStopped);
}

TEST_F(ServerThatStopsTest, HasItsValuesSavedWhenTheLeadingProcessStopsBeforeItLoadsTheSuccessor) {
  leader_stops_before_load_ = true;
  RunToAnEarlyEnd(LoopEnd::kStopped);
}

TEST_F(ServerThatStopsTest, HasItsValuesSavedWhenNoSuccessorComes) {
  has_successor_ = false;
  while_server_is_away_ = [](Rank& leading) { leading.clock.Advance(std::chrono::minutes(1)); };
  RunToAnEarlyEnd(LoopEnd::kFailed);
}

TEST_F(ServerThatStopsTest, EndsDuringALongEvaluationOnceItsValuesAreSaved) {
  const TempDirectory checkpoints;
  const auto store = *CheckpointStore::Open(RealFileSystem(), checkpoints.path(), 3, {});
  in_evaluation_ = [&](Rank& leading, int batch) {
    if (batch == 0) {
      AskServerToStop();
      leading.clock.Advance(std::chrono::seconds(1));
    }
    if (batch != 1) return;
    WaitForItsEnd();
    EXPECT_EQ(leading.saver->outcome().last_saved_step, 20);
  };
  RunToTheEnd(store.get());
}

TEST_F(ServerThatStopsTest, NeedNotWaitForAStepIfItIsAskedDuringAShortEvaluation) {
  std::atomic<std::int64_t> last_version = -1;
  before_successor_ = [&] { last_version = shard_->counts().version; };
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 2) AskServerToStop();
  };
  RunToTheEnd(nullptr);
  EXPECT_EQ(last_version, 20);
}

// Another worker is connected, or the server would end.
TEST_F(ServerThatStopsTest, EndsDuringALongEvaluationThoughItsConnectionsHaveBroken) {
  const TempDirectory checkpoints;
  const auto store = *CheckpointStore::Open(RealFileSystem(), checkpoints.path(), 3, {});
  std::optional<TaskLink> other;
  in_evaluation_ = [&](Rank& leading, int batch) {
    if (batch == 0) {
      BreakConnections();
      Caller caller = Worker(1);
      caller.who.set_fingerprint(leading.session->Fingerprint());
      EXPECT_TRUE(other.emplace(address_, caller).Connect().ok());
      AskServerToStop();
    }
    leading.clock.Advance(std::chrono::seconds(1));
    if (batch != 2) return;  // the second look finds that they have broken
    WaitForItsEnd();
    EXPECT_EQ(leading.saver->outcome().last_saved_step, 20);
  };
  RunToTheEnd(store.get());
}

// The last look of the evaluation was before.
TEST_F(ServerThatStopsTest, WaitsForTheCheckpointThatIsDueAndIsNotSavedTwice) {
  training_.checkpoint.every_steps = 1;
  const TempDirectory checkpoints;
  const auto store = *CheckpointStore::Open(RealFileSystem(), checkpoints.path(), 3, {});
  std::atomic<std::int64_t> saved = -1;
  before_successor_ = [&] { saved = leading_->saver->outcome().last_saved_step; };
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 2) AskServerToStop();
  };
  const auto rank = RunToTheEnd(store.get());
  EXPECT_EQ(saved, 20);
  EXPECT_EQ(rank->saver->outcome().durations.count(), 40) << "of 40 steps";
}

// The leading process may be lost while it waits.
TEST_F(ServerThatStopsTest, IsAwaitedOnlyOnceTheCheckpointThatIsDueIsUnderWay) {
  training_.checkpoint.every_steps = 1;
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  std::int64_t saved = -1;
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 0) server_.reset();
  };
  while_server_is_away_ = [&](Rank& leading) {
    if (server_) return;
    EXPECT_TRUE(leading.saver->Wait().ok());
    saved = leading.saver->outcome().last_saved_step;
    StartServer();
  };
  RunToTheEnd(store.get());
  EXPECT_EQ(saved, 20);
}

TEST_F(ServerThatStopsTest, HasItsValuesSavedOnceAtMostIfALaterProcessHasTheCheckpoints) {
  const TempDirectory checkpoints;
  const auto store = OpenStore(checkpoints, 1);
  std::unique_ptr<CheckpointStore> later;
  in_evaluation_ = [&](Rank& leading, int batch) {
    if (batch != 0) return;
    later = OpenStore(checkpoints, 2);
    server_stops_ = true;
    leading.clock.Advance(std::chrono::seconds(1));
  };
  const auto rank = MakeWatchedRank(store.get());
  const LoopOutcome outcome = Run(*rank);
  EXPECT_EQ(outcome.end, LoopEnd::kFailed);
  EXPECT_TRUE(absl::IsAborted(outcome.reason)) << outcome.reason;
  EXPECT_EQ(rank->saver->outcome().failures, 1);
}

TEST_F(ServerThatStopsTest, AndAStopIsNoGoodEndIfTheSaveWasRefused) {
  training_.checkpoint.every_steps = 1;
  const TempDirectory checkpoints;
  const auto store = OpenStore(checkpoints, 1);
  std::unique_ptr<CheckpointStore> later;
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch != 0) return;
    later = OpenStore(checkpoints, 2);
    server_.reset();
  };
  while_server_is_away_ = [](Rank& leading) {
    leading.rendezvous.asked_to_stop = !leading.saver->Wait().ok();
  };
  const auto rank = MakeWatchedRank(store.get());
  const LoopOutcome outcome = Run(*rank);
  EXPECT_EQ(outcome.end, LoopEnd::kStopped);
  EXPECT_TRUE(absl::IsAborted(outcome.reason)) << outcome.reason;
}

TEST_F(ServerThatStopsTest, EndsALeadingProcessThatIsSuperseded) {
  in_evaluation_ = [&](Rank& leading, int batch) {
    EXPECT_EQ(batch, 0) << "it ends before it has told anybody that values are lost";
    shard_->LeaderCame({.pod_started = std::numeric_limits<std::int64_t>::max()});
    server_stops_ = true;
    leading.clock.Advance(std::chrono::seconds(1));
  };
  const auto rank = MakeWatchedRank(nullptr);
  const LoopOutcome outcome = Run(*rank);
  EXPECT_EQ(outcome.end, LoopEnd::kFailed);
  EXPECT_TRUE(absl::IsAborted(outcome.reason)) << outcome.reason;
}

// What the leading process has is not what counts.
TEST_F(ServerThatStopsTest, GoesOnIfItHasMadeAnUpdateSinceThePull) {
  std::atomic<std::int64_t> last_version = -1;
  before_successor_ = [&] { last_version = shard_->counts().version; };
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch != 2) return;
    const auto pushed = shard_->Push({.fence = shard_->fence(), .step = 1000, .skip = true});
    EXPECT_TRUE(pushed.ok()) << pushed.status();
    AskServerToStop();
  };
  RunToTheEnd(nullptr);
  EXPECT_EQ(last_version, 22) << "after another step";
}

// It was killed before the leading process looked at it, or has crashed.
TEST_F(ServerThatStopsTest, HasItsValuesKeptByTheLeadingProcessThatEvaluates) {
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 0) StartServer();
  };
  RunToTheEnd(nullptr);
}

// As one does that is not server 0, which has no part in what server 0 knows of the run.
TEST_F(ServerThatStopsTest, MayLoseItsValuesAloneWhileTheLeadingProcessEvaluates) {
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 0) shard_->Clear();
  };
  RunToTheEnd(nullptr);
}

// The time limit of the other worker ends in the evaluation.
TEST_F(ServerThatStopsTest, MayBeReplacedInALongEvaluationAndTheOtherWorkerStays) {
  LocalRendezvousHub other_hub(1);
  std::atomic<int> questions = 0;  // of the other worker: two before each report
  std::atomic<bool> has_left = false;
  Rank other(training_, 1, other_hub, 0, [&](int) { ++questions; });
  const auto wait_for_reports = [&] {
    for (const int from = questions; questions < from + 6 && !has_left;) std::this_thread::yield();
  };
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch != 0) return;
    wait_for_reports();  // it is in the run
    StartServer();
    ExpectLeaderAt(address_, other.session->Fingerprint());
    wait_for_reports();  // so that it knows
    other.clock.Advance(std::chrono::minutes(5));
    wait_for_reports();
  };
  const std::jthread other_process([&] {
    EXPECT_EQ(Run(other, 1).end, LoopEnd::kDone);
    EXPECT_LT(other.loop.phases.TrainingTime(), std::chrono::minutes(5)) << "it waits";
    has_left = true;
  });
  RunToTheEnd(nullptr);
}

TEST_F(ServerThatStopsTest, HasItsValuesSavedIfItIsLostInAnEvaluationAndTheLeadingProcessStops) {
  FaultFileSystem files;
  const auto store = *CheckpointStore::Open(files, "/checkpoints", 3, {});
  in_evaluation_ = [&](Rank&, int batch) {
    if (batch == 0) server_.reset();
  };
  while_server_is_away_ = [](Rank& leading) { leading.rendezvous.asked_to_stop = true; };
  const auto rank = MakeWatchedRank(store.get());
  EXPECT_EQ(Run(*rank).end, LoopEnd::kStopped);
  EXPECT_EQ(rank->saver->outcome().last_saved_step, 20);
}

}  // namespace
}  // namespace lockstep::train
