#include "operator/progress/progress_poller.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "api/proto/trainer_status.grpc.pb.h"
#include "base/descriptor.h"
#include "base/listener.h"
#include "tests/support/eventually.h"
#include "tests/support/free_port.h"
#include "tests/support/time_limit.h"

namespace lockstep::progress {
namespace {

using std::chrono::milliseconds;

// A leading pod whose answers the test sets.
class FakeTrainer final : public proto::TrainerStatus::Service {
 public:
  explicit FakeTrainer(std::string job_uid, int port = 0) : job_uid_(std::move(job_uid)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                             &port_);
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
  void SetMissesCheckpoints(std::optional<bool> misses) {
    const std::lock_guard lock(mutex_);
    misses_ = misses;
  }
  // What rank 0 does, and whether its group cannot have another number of workers.
  void SetActivity(proto::Activity activity, bool keeps_workers) {
    const std::lock_guard lock(mutex_);
    activity_ = activity;
    keeps_workers_ = keeps_workers;
  }
  // Delays all answers until Release().
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
  int told() {  // with the last question, how many workers there are to be
    const std::lock_guard lock(mutex_);
    return told_;
  }
  // Calls `act` when so many questions have come, before the last of them is answered.
  void AtQuestion(int count, std::function<void()> act) {
    const std::lock_guard lock(mutex_);
    act_at_ = count;
    act_ = std::move(act);
  }
  bool WaitForQuestions(int count) {
    std::unique_lock lock(mutex_);
    return asked_.wait_for(lock, testing::Slowed(std::chrono::seconds(20)),
                           [&] { return questions_ >= count; });
  }
  controller::ProgressTarget Target() const { return {"uid", "127.0.0.1", port_}; }

  std::size_t peers() {  // client ports that have called
    const std::lock_guard lock(mutex_);
    return peers_.size();
  }
  void AddStraggler(const std::string& replica, int rank, proto::Activity activity,
                    proto::StepPart part = proto::STEP_PART_UNKNOWN) {
    const std::lock_guard lock(mutex_);
    proto::Straggler& straggler = stragglers_.emplace_back();
    straggler.set_replica(replica);
    straggler.set_rank(rank);
    straggler.set_activity(activity);
    straggler.set_step_part(part);
  }
  void Compress() {
    const std::lock_guard lock(mutex_);
    compressed_ = true;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const proto::GetStatusRequest* request,
                         proto::GetStatusResponse* response) override {
    std::unique_lock lock(mutex_);
    if (++questions_ == act_at_) act_();
    told_ = request->workers();
    response->set_workers(told_);
    peers_.insert(context->peer());
    asked_.notify_all();
    asked_.wait(lock, [this] { return !held_; });
    if (compressed_) context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
    response->set_job_uid(job_uid_);
    response->add_missing("worker 1");
    response->set_activity(activity_);
    response->set_keeps_workers(keeps_workers_);
    if (misses_) response->set_evaluator_misses_checkpoints(*misses_);
    if (step_ < 0) return grpc::Status::OK;
    response->mutable_progress()->set_step(step_);
    response->mutable_progress()->set_loss(std::numeric_limits<double>::quiet_NaN());
    response->mutable_progress()->set_accuracy(0.5);
    for (const std::string& member : missing_) response->add_missing_members(member);
    for (const proto::Straggler& straggler : stragglers_) {
      *response->add_stragglers() = straggler;
    }
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
  proto::Activity activity_ = proto::ACTIVITY_EVALUATION;
  bool keeps_workers_ = false;
  int questions_ = 0, act_at_ = 0, told_ = 0;
  std::function<void()> act_;
  std::set<std::string> peers_;
  bool held_ = false, compressed_ = false;
  std::optional<bool> misses_;  // nullopt: it says nothing of an Evaluator
  std::vector<std::string> missing_;
  std::vector<proto::Straggler> stragglers_;
  std::string padding_, nonce_;
  std::function<void(proto::TrainerProgress&)> changed_ = [](proto::TrainerProgress&) {};
  std::unique_ptr<grpc::Server> server_;
};

PollerOptions Often() {
  return {.interval = milliseconds(5), .deadline = std::chrono::seconds(5)};
}

std::optional<api::Progress> WaitForStep(ProgressPoller& poller, const FakeTrainer& trainer,
                                         std::int64_t step) {
  const auto deadline =
      std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(20));
  while (std::chrono::steady_clock::now() < deadline) {
    const auto latest = poller.Latest(trainer.Target());
    if (latest && latest->step == step) return latest;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return std::nullopt;
}

TEST(ProgressPollerTest, ReturnsTheTrainersLatestAnswer) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
  trainer.SetStep(7);
  const auto progress = WaitForStep(poller, trainer, 7);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->accuracy, 0.5);
  EXPECT_FALSE(progress->loss.has_value()) << "JSON cannot hold NaN";
  EXPECT_FALSE(progress->samples_lost.has_value());
  trainer.SetProgress([](auto& said) { said.set_samples_lost(3); });
  trainer.SetStep(8);
  const auto later = WaitForStep(poller, trainer, 8);
  ASSERT_TRUE(later.has_value());
  EXPECT_EQ(later->samples_lost, 3);
}

// Otherwise the numbers of the evaluation before would stand: see NoteEvaluation.
TEST(ProgressPollerTest, AnEvaluationWithoutANumberIsAnEvaluation) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
  trainer.SetProgress([](auto& progress) {
    progress.set_test_mean_absolute_error(std::numeric_limits<double>::quiet_NaN());
  });
  trainer.SetStep(7);
  const auto progress = WaitForStep(poller, trainer, 7);
  ASSERT_TRUE(progress.has_value());
  ASSERT_TRUE(progress->test_mean_absolute_error.has_value());
  EXPECT_TRUE(std::isnan(*progress->test_mean_absolute_error));
}

TEST(ProgressPollerTest, NamedMetricsThatAreKnownAndFiniteAreTaken) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
  trainer.SetProgress([](auto& progress) {
    const auto add = [&](const char* name, double value) {
      auto& metric = *progress.add_test_metrics();
      metric.set_name(name);
      metric.set_value(value);
    };
    add("AUC", 0.75);
    add("Recall", std::numeric_limits<double>::quiet_NaN());
    add("OfALaterVersion", 0.5);
  });
  trainer.SetStep(7);
  const auto progress = WaitForStep(poller, trainer, 7);
  ASSERT_TRUE(progress.has_value());
  EXPECT_EQ(progress->test_metrics, (api::TestMetrics{{api::TestMetric::kAuc, 0.75}}));
}

TEST(ProgressPollerTest, AnEvaluatorThatMissesCheckpointsIsPartOfTheGroupsReport) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
  std::int64_t step = 7;
  for (const auto told : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
    trainer.SetMissesCheckpoints(told);
    trainer.SetStep(step);
    ASSERT_TRUE(WaitForStep(poller, trainer, step++));
    EXPECT_EQ(poller.Group("uid").evaluator_misses_checkpoints, told);
  }
}

TEST(ProgressPollerTest, AnotherJobsTrainerIsNotBelieved) {
  FakeTrainer trainer("somebody else's");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForQuestions(3));
  EXPECT_FALSE(poller.Latest(trainer.Target()).has_value());
}

TEST(ProgressPollerTest, ReportsTheGroupAsLongAsTheTrainerAnswers) {
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
  const auto deadline =
      std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(20));
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
      [](auto& progress) { progress.set_last_checkpoint_step(-2); },
      [](auto& progress) { progress.set_samples_lost(-1); }};
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
  trainer.SetPadding(std::string(20'000, 'x'));
  trainer.SetStep(8);
  ASSERT_TRUE(trainer.WaitForQuestions(trainer.questions() + 3));
  EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
  EXPECT_FALSE(poller.Group("uid").leader_is_silent);
}

// 16 KiB can decompress to a thousand times as much.
TEST(ProgressPollerTest, ACompressedAnswerIsNotRead) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  trainer.Compress();
  trainer.SetPadding(std::string(10'000, 'x'));
  trainer.SetStep(8);
  ASSERT_TRUE(trainer.WaitForQuestions(trainer.questions() + 3));
  EXPECT_EQ(poller.Latest(trainer.Target())->step, 7);
}

TEST(ProgressPollerTest, WhereNoConnectionIsKeptEachQuestionHasItsOwn) {
  FakeTrainer trainer("uid");
  PollerOptions options = Often();
  options.most_links = 0;
  ProgressPoller poller(std::move(options));
  for (const int step : {7, 8, 9}) {
    trainer.SetStep(step);
    EXPECT_TRUE(WaitForStep(poller, trainer, step).has_value());
  }
  EXPECT_GT(trainer.peers(), 1u);
}

// What a tenant may run in a trainer's place: handwritten HTTP/2, one connection after the other.
class HostileTrainer {
 public:
  enum class Sends { kMessage, kHeaders, kPings };  // endlessly

  explicit HostileTrainer(Sends sends)
      : sends_(sends), listener_(*ListenAt("127.0.0.1:0", 8)), thread_([this] { Serve(); }) {}
  ~HostileTrainer() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    ::shutdown(listener_.socket.fd(), SHUT_RDWR);
    ::shutdown(caller_.fd(), SHUT_RDWR);
  }

  controller::ProgressTarget Target(const std::string& job_uid) const {
    return {job_uid, "127.0.0.1", listener_.port};
  }
  int connections() const { return connections_; }

 private:
  enum FrameType : std::uint8_t {
    kData = 0,
    kHeaders = 1,
    kSettings = 4,
    kPing = 6,
    kContinuation = 9
  };
  static constexpr std::uint8_t kAck = 1, kEndHeaders = 4;
  static constexpr std::size_t kLargestFrame = 16384;

  static std::string Frame(FrameType type, std::uint8_t flags, const std::string& payload) {
    const bool of_connection = type == kSettings || type == kPing;
    std::string frame;
    for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift & 0xff);
    frame += static_cast<char>(type);
    frame += static_cast<char>(flags);
    return frame + std::string(3, '\0') + (of_connection ? '\0' : '\1') + payload;
  }
  void Serve() {
    while (WaitForCaller()) {
      ++connections_;
      std::string asked(kLargestFrame, '\0');
      if (!Send(Frame(kSettings, 0, "") + Frame(kSettings, kAck, ""))) continue;
      if (::recv(caller_.fd(), asked.data(), asked.size(), 0) <= 0) continue;
      // HPACK: ":status: 200" from the static table, and a literal header.
      const std::string begin = "\x88\x0f\x10\x10" + std::string("application/grpc");
      std::string more;
      if (sends_ == Sends::kMessage) {
        Send(Frame(kHeaders, kEndHeaders, begin));
        Send(Frame(kData, 0, '\0' + std::string(4, '\xff')));  // a length of 4 GiB
        more = Frame(kData, 0, std::string(kLargestFrame, 'x'));
      } else if (sends_ == Sends::kHeaders) {
        Send(Frame(kHeaders, 0, begin));
        more = Frame(kContinuation, 0, '\0' + ("\1x\x7f\x81\x7e" + std::string(16256, 'y')));
      } else {
        for (int i = 0; i < 500; ++i) more += Frame(kPing, 0, "12345678") + Frame(kSettings, 0, "");
      }
      while (Send(more)) {
      }
    }
  }
  bool WaitForCaller() {
    pollfd waiting{listener_.socket.fd(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    const std::lock_guard lock(mutex_);
    if (stopped_) return false;
    caller_ = Accept(listener_).socket;
    ::fcntl(caller_.fd(), F_SETFL, ::fcntl(caller_.fd(), F_GETFL) & ~O_NONBLOCK);
    return true;
  }
  bool Send(const std::string& bytes) const {
    return ::send(caller_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  const Sends sends_;
  const Listener listener_;
  std::mutex mutex_;
  bool stopped_ = false;  // guarded by mutex_
  Descriptor caller_;     // set by the thread, under mutex_
  std::atomic<int> connections_{0};
  std::jthread thread_;  // last: it uses all of the above
};

std::size_t ResidentBytes() {
  std::size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Without the bound it would be gigabytes. Sanitizers keep shadow memory and freed memory.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kMostGrowth = 400'000'000;
#else
constexpr std::size_t kMostGrowth = 32'000'000;
#endif

class HostileTrainerTest : public ::testing::TestWithParam<HostileTrainer::Sends> {};

TEST_P(HostileTrainerTest, OfAnAnswerWithoutEndOnlySoMuchIsReadAndOthersAreAsked) {
  FakeTrainer honest("uid");
  honest.SetStep(7);
  std::vector<std::unique_ptr<HostileTrainer>> trainers;
  for (int i = 0; i < 4; ++i) trainers.push_back(std::make_unique<HostileTrainer>(GetParam()));
  ProgressPoller poller(Often());
  const auto ask = [&] {
    for (std::size_t i = 0; i < trainers.size(); ++i) {
      poller.Latest(trainers[i]->Target("hostile " + std::to_string(i)));
    }
    return poller.Latest(honest.Target());
  };
  const auto all_were_asked = [&](int times) {
    return std::ranges::all_of(
        trainers, [&](const auto& trainer) { return trainer->connections() >= times; });
  };
  const auto end = std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(60));
  const auto wait_for = [&](int times) {
    while (!all_were_asked(times) && std::chrono::steady_clock::now() < end) {
      ask();
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_TRUE(all_were_asked(times));
  };
  wait_for(2);
  const std::size_t before = ResidentBytes();
  wait_for(50);
  EXPECT_LT(ResidentBytes(), before + kMostGrowth);
  EXPECT_TRUE(WaitForStep(poller, honest, 7).has_value());
}

INSTANTIATE_TEST_SUITE_P(Sends, HostileTrainerTest,
                         ::testing::Values(HostileTrainer::Sends::kMessage,
                                           HostileTrainer::Sends::kHeaders,
                                           HostileTrainer::Sends::kPings));

TEST(ProgressPollerTest, ATrainerThatStartsAgainAtItsAddressIsAskedAgain) {
  const int port = testing::FreePort();
  auto trainer = std::make_unique<FakeTrainer>("uid", port);
  trainer->SetStep(7);
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, *trainer, 7).has_value());
  trainer.reset();
  FakeTrainer successor("uid", port);
  successor.SetStep(8);
  EXPECT_TRUE(WaitForStep(poller, successor, 8).has_value());
}

TEST(ProgressPollerTest, AnAddressThatIsNoneIsAskedNothing) {
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Latest({"uid", "nowhere", 1}).has_value());
  FakeTrainer trainer("other");
  trainer.SetStep(7);
  auto target = trainer.Target();
  target.job_uid = "other";
  const auto end = std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(20));
  while (!poller.Latest(target) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(poller.Latest(target).has_value());
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

TEST(ProgressPollerTest, SilentPodsDelayNoOtherNamespacesProgress) {
  FakeTrainer silent("uid"), trainer("uid");
  silent.Hold();
  ProgressPoller poller(
      {.interval = milliseconds(50), .deadline = milliseconds(200), .most_calls = 4});
  constexpr int kSilent = 24;
  for (int i = 0; i < kSilent; ++i) {
    poller.Latest({std::to_string(i), "127.0.0.1", silent.Target().port, "silent"});
  }
  ASSERT_TRUE(silent.WaitForQuestions(4));
  std::atomic<int> meanwhile{0};
  trainer.AtQuestion(4, [&] { meanwhile = silent.questions(); });
  poller.Latest({"uid", "127.0.0.1", trainer.Target().port, "other"});
  // A new pod is asked at once; from then on, it is as late as the others.
  const bool was_asked = trainer.WaitForQuestions(4);
  silent.Release();
  ASSERT_TRUE(was_asked);
  EXPECT_LT(meanwhile, 2 * kSilent) << "it has not waited for all of them in turn";
}

// A tenant's program may answer in the trainer's place.
TEST(ProgressPollerTest, NamesThatAreNoReplicasAreNotKept) {
  FakeTrainer trainer("uid");
  std::vector<std::string> members(5'000, "");
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

TEST(ProgressPollerTest, AnAnswerThatIsNoTextIsLoggedForDebuggingOnly) {
  const ProgressPoller poller(Often());
  proto::GetStatusResponse said;
  said.set_job("job");
  std::string bytes = said.SerializeAsString();
  bytes.back() = '\xff';
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(said.ParseFromString(bytes));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ProgressPollerTest, TellsWhomTheGroupWaitsForAndWhatThoseDo) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  trainer.AddStraggler("worker-1", 2, proto::ACTIVITY_STEP, proto::STEP_PART_INPUT);
  trainer.AddStraggler("\x1b[2Jworker-1", 3, proto::ACTIVITY_STEP, proto::STEP_PART_INPUT);
  trainer.AddStraggler("worker-2", 4, proto::ACTIVITY_STEP, proto::STEP_PART_COMPUTE);
  trainer.AddStraggler("worker-3", 5, proto::ACTIVITY_CHECKPOINT);
  trainer.AddStraggler("worker-4", 6, static_cast<proto::Activity>(99));
  ProgressPoller poller(Often());
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  using controller::Straggler;
  EXPECT_EQ(poller.Group("uid").stragglers,
            (std::vector{Straggler{"worker-1", 2, "waits for its next batch"},
                         Straggler{"worker-2", 4, "computes its gradients"},
                         Straggler{"worker-3", 5, "writes a checkpoint"},
                         Straggler{"worker-4", 6, "does something else"}}));
  EXPECT_EQ(poller.Group("uid").hung, poller.Group("uid").stragglers) << "worker 1 is missing";
  poller.Pause("uid");
  EXPECT_EQ(poller.Group("uid").hung.size(), 4u) << "the leading pod ends with the others";
  EXPECT_TRUE(poller.Group("uid").stragglers.empty());
  for (int i = 0; i < 20; ++i) trainer.AddStraggler("worker-5", i, proto::ACTIVITY_STEP);
  trainer.SetStep(8);
  ASSERT_TRUE(WaitForStep(poller, trainer, 8).has_value());
  EXPECT_EQ(poller.Group("uid").stragglers.size(), 8u);
}

TEST(ProgressPollerTest, ReportsWhoIsMissingAndThatTheLeadingPodIsSilent) {
  auto trainer = std::make_unique<FakeTrainer>("uid");
  trainer->SetStep(7);
  trainer->SetMissing({"worker-1", "worker-3"});
  ProgressPoller poller(Often());  // the port of one that is gone refuses at once
  const auto target = trainer->Target();
  EXPECT_EQ(poller.Group("uid"), controller::GroupReport());
  ASSERT_TRUE(WaitForStep(poller, *trainer, 7).has_value());
  EXPECT_EQ(poller.Group("uid"), (controller::GroupReport{.missing = {"worker-1", "worker-3"},
                                                          .awaited = {"worker-1"},
                                                          .resizes = false,
                                                          .answers = true}));
  trainer.reset();
  const auto deadline =
      std::chrono::steady_clock::now() + testing::Slowed(std::chrono::seconds(20));
  while (!poller.Group("uid").leader_is_silent && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(poller.Group("uid"),
            (controller::GroupReport{.leader_is_silent = true, .resizes = false}));
  // A pod that has never answered may be unreachable for this operator only.
  poller.Latest({"other", "127.0.0.1", target.port});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(poller.Group("other").leader_is_silent);
}

TEST(ProgressPollerTest, TellsTheLeadingPodHowManyWorkersItsGroupIsToHave) {
  FakeTrainer trainer("uid");
  ProgressPoller poller({.interval = std::chrono::hours(1)});
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForQuestions(1));
  EXPECT_EQ(trainer.told(), 0);
  EXPECT_TRUE(lockstep::testing::Eventually([&] { return poller.Group("uid").resizes == false; }));
  poller.TellWorkers("uid", 3);
  ASSERT_TRUE(trainer.WaitForQuestions(2)) << "at once";
  EXPECT_TRUE(lockstep::testing::Eventually([&] { return poller.Group("uid").workers == 3; }));
  poller.TellWorkers("uid", 3);
  poller.TellWorkers("another", 5);
  EXPECT_EQ(trainer.questions(), 2);
}

TEST(ProgressPollerTest, TellsThatTheGroupWaitsForACheckpoint) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  poller.Latest(trainer.Target());
  for (const auto& [activity, keeps] : {std::pair{proto::ACTIVITY_CHECKPOINT, false},
                                        {proto::ACTIVITY_STEP, false},
                                        {proto::ACTIVITY_STEP, true},
                                        {proto::ACTIVITY_CHECKPOINT, true},
                                        {proto::ACTIVITY_STEP, false}}) {
    trainer.SetActivity(activity, keeps);
    const bool saves = activity == proto::ACTIVITY_CHECKPOINT;
    EXPECT_TRUE(lockstep::testing::Eventually([&, keeps = keeps] {
      const controller::GroupReport group = poller.Group("uid");
      return group.saves == saves && group.keeps_workers == keeps &&
             group.AwaitsSave() == (saves || keeps);
    }));
  }
}

// Its volume hangs, say.
TEST(ProgressPollerTest, ASaveIsNotWaitedForWithoutEnd) {
  FakeTrainer trainer("uid");
  trainer.SetActivity(proto::ACTIVITY_CHECKPOINT, /*keeps_workers=*/false);
  PollerOptions options = Often();
  options.longest_save = std::chrono::nanoseconds(0);
  ProgressPoller poller(std::move(options));
  poller.Latest(trainer.Target());
  ASSERT_TRUE(lockstep::testing::Eventually([&] { return poller.Group("uid").answers; }));
  EXPECT_FALSE(poller.Group("uid").AwaitsSave());
}

TEST(ProgressPollerTest, AForgottenJobIsNotAsked) {
  FakeTrainer trainer("uid");
  ProgressPoller poller(Often());
  poller.Latest(trainer.Target());
  ASSERT_TRUE(trainer.WaitForQuestions(1));
  poller.Forget("uid");
  FakeTrainer other("uid");  // polling of others continues
  poller.Latest({"other", "127.0.0.1", other.Target().port});
  ASSERT_TRUE(other.WaitForQuestions(1));
  const int asked = trainer.questions();
  ASSERT_TRUE(other.WaitForQuestions(10));
  EXPECT_LE(trainer.questions(), asked + 1) << "only a question under way may still come";
}

TEST(ProgressPollerTest, APausedJobIsNotAskedAndItsLatestAnswerIsKept) {
  FakeTrainer trainer("uid");
  trainer.SetStep(7);
  ProgressPoller poller(Often());
  EXPECT_FALSE(poller.Pause("uid").has_value()) << "nobody has asked for it";
  ASSERT_TRUE(WaitForStep(poller, trainer, 7).has_value());
  ASSERT_EQ(poller.Pause("uid")->step, 7);
  EXPECT_EQ(poller.Group("uid"), (controller::GroupReport{.resizes = false}));
  EXPECT_FALSE(poller.State("uid").has_value());
  FakeTrainer other("uid");  // polling of others continues
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

TEST(ProgressPollerTest, APodThatDoesNotAnswerHoldsNothingUp) {
  FakeTrainer silent("silent"), other("uid");
  silent.Hold();
  other.SetStep(7);
  SteadyTime ends;
  {
    ProgressPoller poller(
        {.interval = milliseconds(5), .deadline = testing::Slowed(std::chrono::hours(1))});
    EXPECT_FALSE(poller.Latest({"silent", "127.0.0.1", silent.Target().port}).has_value());
    EXPECT_TRUE(silent.WaitForQuestions(1));
    EXPECT_TRUE(WaitForStep(poller, other, 7).has_value());
    ends = std::chrono::steady_clock::now();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - ends, testing::Slowed(std::chrono::seconds(20)))
      << "its end does not wait for the answer either";
  silent.Release();
}

}  // namespace
}  // namespace lockstep::progress
