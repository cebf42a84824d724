#include "operator/progress/progress_poller.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <functional>
#include <limits>
#include <thread>

#include "api/proto/trainer_status.grpc.pb.h"

namespace lockstep::progress {
namespace {

using std::chrono::milliseconds;

// A leading pod that says what it is told to say.
class FakeTrainer final : public proto::TrainerStatus::Service {
 public:
  explicit FakeTrainer(std::string job_uid) : job_uid_(std::move(job_uid)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeTrainer() override { server_->Shutdown(); }

  void SetStep(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    step_ = step;
  }
  void SetMissing(std::vector<std::string> missing) {
    const std::lock_guard lock(mutex_);
    missing_ = std::move(missing);
  }
  void SetPadding(std::string padding) {
    const std::lock_guard lock(mutex_);
    padding_ = std::move(padding);
  }
  void SetNonce(std::string nonce) {
    const std::lock_guard lock(mutex_);
    nonce_ = std::move(nonce);
  }
  void SetProgress(std::function<void(proto::TrainerProgress&)> change) {
    const std::lock_guard lock(mutex_);
    changed_ = std::move(change);
  }
  // Questions wait for their answers until Release().
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void Release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    asked_.notify_all();
  }
  int questions() {
    const std::lock_guard lock(mutex_);
    return questions_;
  }
  bool WaitForQuestions(int count) {
    std::unique_lock lock(mutex_);
    return asked_.wait_for(lock, std::chrono::seconds(20), [&] { return questions_ >= count; });
  }
  controller::ProgressTarget Target() const { return {"uid", "127.0.0.1", port_}; }

  grpc::Status GetStatus(grpc::ServerContext*, const proto::GetStatusRequest*,
                         proto::GetStatusResponse* response) override {
    std::unique_lock lock(mutex_);
    ++questions_;
    asked_.notify_all();
    asked_.wait(lock, [this] { return !held_; });
    response->set_job_uid(job_uid_);
    response->add_missing("worker 1");
    response->set_activity(proto::ACTIVITY_EVALUATION);
    if (step_ < 0) return grpc::Status::OK;
    response->mutable_progress()->set_step(step_);
    response->mutable_progress()->set_loss(std::numeric_limits<double>::quiet_NaN());
    response->mutable_progress()->set_accuracy(0.5);
    for (const std::string& member : missing_) response->add_missing_members(member);
    response->set_job(padding_);
    response->set_nonce(nonce_);
    changed_(*response->mutable_progress());
    return grpc::Status::OK;
  }

 private:
  const std::string job_uid_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable asked_;
  std::int64_t step_ = -1;
  int questions_ = 0;
  bool held_ = false;
  std::vector<std::string> missing_;
  std::string padding_, nonce_;
  std::function<void(proto::TrainerProgress&)> changed_ = [](proto::TrainerProgress&) {};
  std::unique_ptr<grpc::Server> server_;
};

PollerOptions Often() {
  return {.interval = milliseconds(5), .deadline = std::chrono::seconds(5)};
}

std::optional<api::Progress> WaitForStep(ProgressPoller& poller, const FakeTrainer& trainer,
                                         std::int64_t step) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto latest = poller.Latest(trainer.Target());
    if (latest && latest->step == step) return latest;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::nullopt;
}

TEST(ProgressPollerTest, BringsWhatTheTrainerSaidLast) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
  trainer.SetStep(7);
  const auto progress = WaitForStep(poller, trainer, 7);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->accuracy, 0.5);
  EXPECT_FALSE(progress->loss.has_value()) << "JSON cannot hold NaN";
  trainer.SetStep(8);
  EXPECT_TRUE(WaitForStep(poller, trainer, 8).has_value());
}

TEST(ProgressPollerTest, AnotherJobsTrainerIsNotBelieved) {
  FakeTrainer trainer("somebody else's");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForQuestions(3));
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
}

TEST(ProgressPollerTest, TellsOfTheGroupAsLongAsTheTrainerAnswers) {
  auto trainer = std::make_unique<FakeTrainer>("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.State("uid").has_value());
  trainer->SetStep(7);
  ASSERT_TRUE(WaitForStep(poller, *trainer, 7).has_value());
  const auto group = poller.State("uid");
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->missing, std::vector<std::string>{"worker 1"});
  EXPECT_EQ(group->activity, api::Activity::kEvaluation);
  EXPECT_FALSE(poller.State("another job's").has_value());
  trainer.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (poller.State("uid").has_value()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(ProgressPollerTest, FollowsTheLeadingPodToANewAddress) {
  auto first = std::make_unique<FakeTrainer>("uid");
  first->SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, *first, 7).has_value());
  first.reset();
  FakeTrainer second("uid");
  const auto meanwhile = poller.Latest(second.Target());
  ASSERT_TRUE(meanwhile.has_value());
  EXPECT_EQ(meanwhile->step, 7) << "what is known stands until the successor speaks";
  second.SetStep(9);
  EXPECT_TRUE(WaitForStep(poller, second, 9).has_value());
}

TEST(ProgressPollerTest, ProgressThatAStatusCannotHoldIsNotBelieved) {
  const std::function<void(proto::TrainerProgress&)> lies[] = {
      [](auto& progress) { progress.set_step(-1); },
      [](auto& progress) { progress.set_total_steps(-1); },
      [](auto& progress) { progress.set_step(std::numeric_limits<std::int64_t>::max()); },
      [](auto& progress) { progress.set_epoch(-1); },
      [](auto& progress) { progress.set_last_checkpoint_step(-2); }};
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  for (const auto& lie : lies) {
    trainer.SetProgress(lie);
    ASSERT_TRUE(trainer.WaitForQuestions(trainer.questions() + 3));
    EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
  }
  trainer.SetProgress([](auto& progress) { progress.set_update_time(1e300); });
  trainer.SetStep(8);
  EXPECT_FALSE(WaitForStep(poller, trainer, 8)->update_time.has_value());
}

TEST(ProgressPollerTest, AnAnswerThatIsTooLongIsNotRead) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  trainer.SetPadding(std::string(100'000, 'x'));
  trainer.SetStep(8);
  ASSERT_TRUE(trainer.WaitForQuestions(trainer.questions() + 3));
  EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
  EXPECT_FALSE(poller.Group("uid").leader_is_silent);
}

TEST(ProgressPollerTest, NoMoreAreAskedAtATimeThanIsAllowedAndEverybodyInTurn) {
  std::vector<std::unique_ptr<FakeTrainer>> trainers;
  PollerOptions options = Often();
  options.most_calls = 1;
  ProgressPoller poller(options);
  for (int i = 0; i < 4; ++i) {
    trainers.push_back(std::make_unique<FakeTrainer>(""));
    poller.Latest({std::to_string(i), "127.0.0.1", trainers.back()->Target().port});
  }
  for (const auto& trainer : trainers) EXPECT_TRUE(trainer->WaitForQuestions(3));
}

// Of a program in a trainer's place.
TEST(ProgressPollerTest, NamesThatAreNoReplicasAreNotKept) {
  FakeTrainer trainer("uid");
  std::vector<std::string> members(20'000, "");
  members.push_back("worker-1");
  trainer.SetMissing(members);
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  EXPECT_EQ(poller.Group("uid").missing, std::vector<std::string>{"worker-1"});
}

TEST(ProgressPollerTest, AnAnswerWithALongNonceIsNoReport) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  trainer.SetNonce(std::string(10'000, 'x'));
  trainer.SetStep(8);
  ASSERT_TRUE(trainer.WaitForQuestions(trainer.questions() + 3));
  EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
}

TEST(ProgressPollerTest, SaysWhoIsMissingAndThatALeaderHasFallenSilent) {
  auto trainer = std::make_unique<FakeTrainer>("uid");
  trainer->SetStep(7);
  trainer->SetMissing({"worker-1", "worker-3"});
  ProgressPoller poller({.interval = milliseconds(5), .deadline = milliseconds(200)});
  const auto target = trainer->Target();
  EXPECT_EQ(poller.Group("uid"), controller::GroupReport());
  ASSERT_TRUE(WaitForStep(poller, *trainer, 7).has_value());
  EXPECT_EQ(poller.Group("uid"), (controller::GroupReport{.missing = {"worker-1", "worker-3"},
                                                          .awaited = {"worker-1"}}));
  trainer.reset();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!poller.Group("uid").leader_is_silent && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(poller.Group("uid"), (controller::GroupReport{.leader_is_silent = true}));
  // One that has never answered may be out of reach for us alone.
  poller.Latest({"other", "127.0.0.1", target.port});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(poller.Group("other").leader_is_silent);
}

TEST(ProgressPollerTest, AForgottenJobIsNotAsked) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForQuestions(1));
  poller.Forget("uid");
  FakeTrainer other("uid");  // asking goes on, of others
  poller.Latest({"other", "127.0.0.1", other.Target().port});
  ASSERT_TRUE(other.WaitForQuestions(1));
  const int asked = trainer.questions();
  ASSERT_TRUE(other.WaitForQuestions(10));
  EXPECT_LE(trainer.questions(), asked + 1) << "only a question under way may still come";
}

TEST(ProgressPollerTest, APausedJobIsNotAskedAndItsLastWordStands) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Pause("uid").has_value()) << "nobody has asked for it";
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  ASSERT_EQ(poller.Pause("uid")->step, 7);
  EXPECT_EQ(poller.Group("uid"), controller::GroupReport());
  EXPECT_FALSE(poller.State("uid").has_value());
  FakeTrainer other("uid");  // asking goes on, of others
  poller.Latest({"other", "127.0.0.1", other.Target().port});
  ASSERT_TRUE(other.WaitForQuestions(1));
  const int asked = trainer.questions();
  ASSERT_TRUE(other.WaitForQuestions(10));
  EXPECT_LE(trainer.questions(), asked + 1) << "only a question under way may still come";
  EXPECT_EQ(poller.Pause("uid")->step, 7);
  const int before = trainer.questions();
  trainer.Hold();
  ASSERT_TRUE(poller.Latest(trainer.Target()).has_value()) << "until the new leader speaks";
  EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
  ASSERT_TRUE(trainer.WaitForQuestions(before + 1)) << "it is asked again";
  trainer.Release();
  poller.Forget("uid");
  EXPECT_FALSE(poller.Pause("uid").has_value());
}

TEST(ProgressPollerTest, AnAnswerMayComeWhenItsJobIsForgotten) {
  for (int i = 0; i < 50; ++i) {
    FakeTrainer trainer("uid");
    trainer.Hold();
    ProgressPoller poller(Often());
    poller.Latest(trainer.Target());
    ASSERT_TRUE(trainer.WaitForQuestions(1));
    poller.Forget("uid");
    trainer.Release();
  }
}

TEST(ProgressPollerTest, APodThatCannotBeReachedHoldsNothingUp) {
  ProgressPoller poller({.interval = milliseconds(5), .deadline = std::chrono::seconds(60)});
  EXPECT_FALSE(poller.Latest({"uid", "127.0.0.1", 1}).has_value());
}  // and the poller ends at once

}  // namespace
}  // namespace lockstep::progress
