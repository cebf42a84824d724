// The servers' and the workers' ends of the protocol, over loopback in one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/support/job_secret.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"

namespace lockstep::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Floats = std::vector<float>;

constexpr std::int64_t kParameters = 64;

class LoopbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      shards_.push_back(EmptyShard());
      servers_.push_back(Start(i, "127.0.0.1:0"));
      addresses_.push_back(fmt::format("127.0.0.1:{}", servers_.back()->port()));
    }
  }
  std::unique_ptr<Shard> EmptyShard() const {
    api::TrainingSpec training;
    training.optimizer = {.name = "SGD", .learning_rate = 1};
    return *Shard::Create(training, *backend_);
  }
  std::unique_ptr<ParameterServer> Start(int index, const std::string& address) {
    ParameterServerOptions options{
        .index = index,
        .address = address,
        .job = "job",
        .token = api::JobToken(testing::kJobSecret),
        .tasks = {},
        .stop_requested = [this] { return is_stopping_.load(); },
        .make_content = [this,
                         index](std::int64_t floats) { return MakeContentOf(index, floats); }};
    auto server = ParameterServer::Start(std::move(options),
                                         *shards_[static_cast<std::size_t>(index)], clock_);
    LOCKSTEP_CHECK(server.ok(), "server {}: {}", index, std::string(server.status().message()));
    return *std::move(server);
  }
  // Connects and loads 10 for each parameter and 5 for the statistic.
  static void Load(ShardGroup& group) {
    const absl::Status met = group.Connect();
    ASSERT_TRUE(met.ok()) << met;
    Floats parameters(kParameters, 10), states(1, 5);
    const FlatValues values{.parameters = parameters, .states = states, .slots = {}};
    const absl::Status loaded = group.Load({.fence = 7, .total_steps = 9, .values = values});
    ASSERT_TRUE(loaded.ok()) << loaded;
  }
  // Pulls everything that the servers have.
  static bool PullAll(ShardGroup& group) {
    Floats parameters(kParameters), states(1);
    const FlatValues values{.parameters = parameters, .states = states, .slots = {}};
    return group.Pull({.fence = 7}, values, /*slots=*/true).ok();
  }
  // Says that what was pulled is saved. Returns whether a server ends then.
  static bool Saved(ShardGroup& group) {
    const absl::StatusOr<bool> released = group.Saved();
    EXPECT_TRUE(released.ok()) << released.status();
    return released.ok() && *released;
  }
  // The memory for what is loaded onto a server, which may lack it.
  absl::StatusOr<std::unique_ptr<SharedContent>> MakeContentOf(int server, std::int64_t floats) {
    ++contents_made_[static_cast<std::size_t>(server)];
    if (server != lacks_memory_) return SharedContent::Create(floats);
    return absl::ResourceExhaustedError("no memory");
  }
  static Caller Worker0(const std::string& secret = testing::kJobSecret,
                        const std::string& job = "job") {
    Caller caller{.who = {}, .token = api::JobToken(secret)};
    caller.who.set_job(job);
    caller.who.set_role("worker");
    caller.who.set_fingerprint("fingerprint");
    return caller;
  }
  ShardGroup Group(const Caller& caller) const {
    return ShardGroup({.servers = addresses_,
                       .caller = caller,
                       .plan = {{{0, 32}}, {{32, 64}}},
                       .parameters = kParameters,
                       .states = 1});
  }

  const SystemClock clock_;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<int> lacks_memory_ = -1;                  // a server
  std::array<std::atomic<int>, 2> contents_made_ = {};  // by server
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<std::unique_ptr<ParameterServer>> servers_;
  std::vector<std::string> addresses_;
};

TEST_F(LoopbackTest, AGradientUpdatesTheValuesOfAllServersOnce) {
  ShardGroup group = Group(Worker0());
  ASSERT_TRUE(group.Connect().ok());
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  ASSERT_TRUE(group.Load({.fence = 7, .total_steps = 9, .values = values}).ok());
  const Floats gradients(kParameters, 3), change(1, 1.0f);
  for (const bool repeated : {false, true}) {
    const auto pushed =
        group.Push({.fence = 7, .versions = {0, 0}, .gradients = gradients, .states = change});
    ASSERT_TRUE(pushed.ok()) << pushed.status();
    EXPECT_EQ(pushed->dropped, repeated);
  }
  const auto versions = group.Pull({.fence = 7}, values, /*slots=*/false);
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(1, 1));
  EXPECT_THAT(parameters, Each(7));
  EXPECT_THAT(states, ElementsAre(6));
  const auto fenced = group.Push(
      {.fence = 8, .step = 1, .versions = {1, 1}, .gradients = gradients, .states = change});
  EXPECT_TRUE(absl::IsFailedPrecondition(fenced.status())) << fenced.status();
  EXPECT_TRUE(group.Pull({.fence = 7}, values, /*slots=*/false).ok()) << "the streams go on";
  EXPECT_THAT(parameters, Each(7));
}

// The spans of the push have other floats than the buffer: those would be sent if memory were not
// shared.
TEST_F(LoopbackTest, AProcessOfTheSameHostSharesItsMemory) {
  const auto buffer = GradientBuffer::Create(kParameters + 1);
  ASSERT_TRUE(buffer.ok() && (*buffer)->segment() != nullptr) << "no shared memory here";
  ShardGroup group({.servers = addresses_,
                    .caller = Worker0(),
                    .plan = {{{0, 32}}, {{32, 64}}},
                    .parameters = kParameters,
                    .states = 1,
                    .gradients = (*buffer)->name(),
                    .gradient_floats = kParameters + 1});
  ASSERT_NO_FATAL_FAILURE(Load(group));
  EXPECT_TRUE(group.IsShared());
  const std::span<float> floats((*buffer)->data(), kParameters + 1);
  for (std::size_t i = 0; i < kParameters; ++i) floats[i] = static_cast<float>(i);
  floats[kParameters] = 2;
  const Floats others(kParameters, 1000), other_states(1, 1000);
  ASSERT_TRUE(group
                  .Push({.fence = 7,
                         .versions = {0, 0},
                         .gradients = others,
                         .states = other_states,
                         .in_buffer = true})
                  .ok());
  Floats parameters(kParameters), states(1);
  ASSERT_TRUE(
      group.Pull({.fence = 7}, {.parameters = parameters, .states = states, .slots = {}}, false)
          .ok());
  for (std::size_t i = 0; i < kParameters; ++i) EXPECT_EQ(parameters[i], 10 - static_cast<int>(i));
  EXPECT_THAT(states, ElementsAre(7));
}

// While an update is under way, no copy of the memory counts: the server copies instead.
TEST_F(LoopbackTest, ACopyThatAnUpdateMayHaveCutInTwoIsMadeByTheServer) {
  const auto buffer = GradientBuffer::Create(kParameters);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ShardGroup group({.servers = {addresses_[0]},
                    .caller = Worker0(),
                    .plan = {{{0, kParameters}}},
                    .parameters = kParameters,
                    .states = 0,
                    .gradients = (*buffer)->name(),
                    .gradient_floats = kParameters});
  ASSERT_TRUE(group.Connect().ok());
  Floats parameters(kParameters, 10);
  const FlatValues values{.parameters = parameters, .states = {}, .slots = {}};
  ASSERT_TRUE(group.Load({.fence = 7, .total_steps = 1, .values = values}).ok());
  const auto place = shards_[0]->Locate({.fence = 7});
  ASSERT_TRUE(place.ok()) << place.status();
  const auto content = SharedContent::Attach(place->memory, place->floats);
  ASSERT_TRUE(content.ok()) << content.status();
  const auto pulls = [&] {
    const std::int64_t before = shards_[0]->counts().pulled_bytes;
    std::ranges::fill(parameters, 0.0f);
    EXPECT_TRUE(group.Pull({.fence = 7}, values, /*slots=*/false).ok());
    EXPECT_THAT(parameters, Each(10));
    return (shards_[0]->counts().pulled_bytes - before) / (4 * kParameters);
  };
  EXPECT_EQ(pulls(), 1);
  (*content)->Update([&] { EXPECT_EQ(pulls(), 2) << "the second by the server"; });
  EXPECT_EQ(pulls(), 1);
}

// Server 0 has taken the push, server 1 has not: repeated, it counts once on both.
TEST_F(LoopbackTest, APushThatALostConnectionCutShortIsRepeated) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  servers_[1].reset();
  const Floats gradients(kParameters, 3), change(1, 1.0f);
  const ShardGroup::Gradient gradient{
      .fence = 7, .versions = {0, 0}, .gradients = gradients, .states = change};
  const absl::Status broken = group.Push(gradient).status();
  EXPECT_TRUE(absl::IsUnavailable(broken)) << broken;
  EXPECT_THAT(std::string(broken.message()), ::testing::HasSubstr("ps 1 at " + addresses_[1]));
  servers_[1] = Start(1, addresses_[1]);
  ASSERT_TRUE(group.Connect().ok());
  const auto pushed = group.Push(gradient);
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_FALSE(pushed->dropped) << "server 1 had not taken it";
  EXPECT_EQ(shards_[0]->counts().dropped, 1);
  Floats parameters(kParameters), states(1);
  ASSERT_TRUE(
      group.Pull({.fence = 7}, {.parameters = parameters, .states = states, .slots = {}}, false)
          .ok());
  EXPECT_THAT(parameters, Each(7));
  EXPECT_THAT(states, ElementsAre(6));
}

TEST_F(LoopbackTest, AServerEndsWhenTheRunIsOver) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  ASSERT_TRUE(group.Finish().ok());
  group.Disconnect();
  for (const auto& server : servers_) {
    EXPECT_EQ(server->WaitForEnd(), ParameterServer::End::kFinished);
  }
}

TEST_F(LoopbackTest, AServerThatIsToStopSaysSoAndEndsOnceEverythingIsSaved) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  const Floats gradients(kParameters, 3), change(1, 1.0f);
  const auto push = [&](std::int64_t step) {
    return group.Push(
        {.fence = 7, .step = step, .versions = {0, 0}, .gradients = gradients, .states = change});
  };
  EXPECT_FALSE(push(0)->stopping);
  is_stopping_ = true;
  EXPECT_TRUE(push(1)->stopping);
  Floats parameters(kParameters), states(1);
  const FlatValues values{.parameters = parameters, .states = states, .slots = {}};
  ASSERT_TRUE(group.Pull({.fence = 7}, values, /*slots=*/true).ok());
  ASSERT_TRUE(group.Saved().ok());
  for (const auto& server : servers_) {  // the connections are open
    EXPECT_EQ(server->WaitForEnd(), ParameterServer::End::kStopped);
  }
  EXPECT_THAT(parameters, Each(4));
}

TEST_F(LoopbackTest, AServerSaysWhetherItHasTheFenceAndIsToStop) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  EXPECT_TRUE(group.Check(7).ok());
  EXPECT_FALSE(group.IsStopping());
  is_stopping_ = true;
  EXPECT_TRUE(group.Check(7).ok());
  EXPECT_TRUE(group.IsStopping());
  shards_[1]->Clear();
  EXPECT_TRUE(absl::IsFailedPrecondition(group.Check(7)));
  EXPECT_TRUE(group.IsStopping()) << "the other one";
}

// The leading process has asked since, and still has what it pulled.
TEST_F(LoopbackTest, AServerThatIsAskedToStopAfterEverythingWasPulledEndsUnlessItHasChanged) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  ASSERT_TRUE(PullAll(group));
  is_stopping_ = true;
  const Floats gradients(kParameters, 3), change(1, 1.0f);
  ASSERT_TRUE(
      group
          .Push(
              {.fence = 7, .step = 0, .versions = {0, 0}, .gradients = gradients, .states = change})
          .ok());
  EXPECT_FALSE(Saved(group));
  ASSERT_TRUE(group.Check(7).ok()) << "what it has now is not saved";
  ASSERT_TRUE(PullAll(group));
  ASSERT_TRUE(Saved(group));
  for (const auto& server : servers_) {
    EXPECT_EQ(server->WaitForEnd(), ParameterServer::End::kStopped);
  }
}

TEST_F(LoopbackTest, AServerThatIsToStopEndsThoughConnectionsBrokeAfterEverythingWasPulled) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  ASSERT_TRUE(PullAll(group));
  EXPECT_FALSE(Saved(group)) << "it was not asked to stop";
  group.Disconnect();
  ASSERT_TRUE(group.Connect().ok());
  is_stopping_ = true;
  ASSERT_TRUE(Saved(group));
  for (const auto& server : servers_) {
    EXPECT_EQ(server->WaitForEnd(), ParameterServer::End::kStopped);
  }
}

// Another server may have failed in it.
TEST_F(LoopbackTest, AServerThatIsToStopStaysAfterAPullThatHasFailed) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  ASSERT_TRUE(PullAll(group));
  shards_[1]->Clear();
  ASSERT_FALSE(PullAll(group));
  is_stopping_ = true;
  EXPECT_FALSE(Saved(group));
  EXPECT_EQ(shards_[0]->fence(), 7u);
}

TEST_F(LoopbackTest, AServerThatIsReleasedOrdersNoLoad) {
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
  TaskLink link(addresses_[0], Worker0());
  ASSERT_TRUE(link.Connect().ok());
  is_stopping_ = true;
  ASSERT_TRUE(PullAll(group));
  ASSERT_TRUE(group.Saved().ok());
  proto::Next next;
  next.mutable_owner();
  const auto reply = link.Next(next);
  EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
  const absl::Status again = TaskLink(addresses_[0], Worker0()).Connect();
  EXPECT_TRUE(absl::IsUnavailable(again)) << again;
}

TEST_F(LoopbackTest, AServerThatIsToStopEndsIfNobodyIsConnected) {
  is_stopping_ = true;
  EXPECT_EQ(servers_[0]->WaitForEnd(), ParameterServer::End::kStopped);
}

TEST_F(LoopbackTest, ACallerWithoutTheTokenOrOfAnotherJobIsRefused) {
  for (const Caller& caller :
       {Worker0("another secret of a job"), Worker0(testing::kJobSecret, "another")}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Group(caller).Connect()));
    EXPECT_TRUE(absl::IsPermissionDenied(TaskLink(addresses_[0], caller).Connect()));
  }
}

TEST_F(LoopbackTest, ALoadThatIsRefusedIsAnsweredWithTheReason) {
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  ShardGroupOptions options{.servers = addresses_,
                            .caller = Worker0(),
                            .plan = {{{32, 64}, {0, 32}}, {}},
                            .parameters = kParameters,
                            .states = 1};
  ShardGroup disordered(options);
  ASSERT_TRUE(disordered.Connect().ok());
  const absl::Status refused = disordered.Load({.fence = 7, .total_steps = 9, .values = values});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ascend"));
  options.plan = {{{0, 64}}, {}};
  ShardGroup group(options);
  ASSERT_TRUE(group.Connect().ok());
  Floats slot(kParameters, 1);  // which SGD without momentum does not have
  const FlatValues more{.parameters = parameters, .states = states, .slots = {slot}};
  const absl::Status too_much = group.Load({.fence = 7, .total_steps = 9, .values = more});
  EXPECT_THAT(std::string(too_much.message()), HasSubstr("found 129 floats to load, expected 65"));
  EXPECT_TRUE(group.Load({.fence = 7, .total_steps = 9, .values = values}).ok());
}

// What else runs on the server's node may end, so the caller repeats the load. It asks the server
// that is loaded for nothing, also on another connection.
TEST_F(LoopbackTest, ALoadForWhichOneServerHasNoMemoryNowIsRepeatedForThatServerAlone) {
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  const ShardGroup::Content content{.fence = 7, .total_steps = 9, .values = values};
  for (const bool connects_anew : {false, true}) {
    ShardGroup group = Group(Worker0());
    lacks_memory_ = 1;
    ASSERT_TRUE(group.Connect().ok());
    const absl::Status refused = group.Load(content);
    EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
    EXPECT_EQ(refused.message(), "ps 1: no memory");
    lacks_memory_ = -1;
    if (connects_anew) group.Disconnect();
    ASSERT_TRUE(group.Connect().ok());
    EXPECT_TRUE(group.Load(content).ok());
    EXPECT_EQ(shards_[1]->fence(), 7u);
    EXPECT_EQ(contents_made_[0].exchange(0), 1);
    EXPECT_EQ(contents_made_[1].exchange(0), 2);
    for (auto& shard : shards_) shard->Clear();
  }
}

// The caller waits for the memory of server 1 and says nothing to server 0, whose process is
// replaced meanwhile.
TEST_F(LoopbackTest, AServerThatLosesWhatWasLoadedIsLoadedAgainWhenTheLoadIsRepeated) {
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  const ShardGroup::Content content{.fence = 7, .total_steps = 9, .values = values};
  ShardGroup group = Group(Worker0());
  lacks_memory_ = 1;
  ASSERT_TRUE(group.Connect().ok());
  EXPECT_TRUE(absl::IsResourceExhausted(group.Load(content)));
  EXPECT_EQ(shards_[0]->fence(), 7u);
  servers_[0].reset();
  shards_[0] = EmptyShard();
  servers_[0] = Start(0, addresses_[0]);
  lacks_memory_ = -1;
  ASSERT_TRUE(group.Connect().ok());
  const absl::Status repeated = group.Load(content);
  EXPECT_TRUE(repeated.ok()) << repeated;
  EXPECT_EQ(shards_[0]->fence(), 7u);
  EXPECT_EQ(shards_[1]->fence(), 7u);
}

TEST_F(LoopbackTest, ARefusalForGoodSaysMoreThanALackOfMemory) {
  lacks_memory_ = 0;
  ShardGroup disordered({.servers = addresses_,
                         .caller = Worker0(),
                         .plan = {{}, {{32, 64}, {0, 32}}},
                         .parameters = kParameters,
                         .states = 1});
  ASSERT_TRUE(disordered.Connect().ok());
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  const absl::Status refused = disordered.Load({.fence = 7, .total_steps = 9, .values = values});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
}

TEST_F(LoopbackTest, ALoadLargerThanTheMachinesMemoryIsRefused) {
  ShardGroup large({.servers = addresses_,
                    .caller = Worker0(),
                    .plan = {{{0, 32}}, {{32, 64}}},
                    .parameters = kParameters,
                    .states = std::int64_t{1} << 46});
  ASSERT_TRUE(large.Connect().ok());
  Floats parameters(kParameters, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  const absl::Status refused = large.Load({.fence = 7, .total_steps = 9, .values = values});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ps 0: parameter server: "));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("bytes of memory, of which"));
  ShardGroup group = Group(Worker0());
  ASSERT_NO_FATAL_FAILURE(Load(group));
}

TEST_F(LoopbackTest, AServerThatIsReachedHearsOfTheEndThoughAnotherIsNot) {
  servers_[0].reset();
  ShardGroup group = Group(Worker0());
  EXPECT_TRUE(absl::IsUnavailable(group.Connect()));
  EXPECT_TRUE(group.Finish().ok());
  group.Disconnect();
  EXPECT_EQ(servers_[1]->WaitForEnd(), ParameterServer::End::kFinished);
}

TEST_F(LoopbackTest, ServerZeroEndsWhenTheLeadingProcessTellsTheCoordinator) {
  {
    TaskLink link(addresses_[0], Worker0());
    ASSERT_TRUE(link.Connect().ok());
    proto::Next next;
    next.mutable_owner()->set_finished(true);
    const auto reply = link.Next(next);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->has_finished());
  }
  EXPECT_EQ(servers_[0]->WaitForEnd(), ParameterServer::End::kFinished);
}

TEST_F(LoopbackTest, ALeadingProcessHasNoSayOnceALaterOneHasCome) {
  const auto of_process = [](int process) {
    Caller one = Worker0();
    one.who.set_process_number(process);
    return one;
  };
  ShardGroup first = Group(of_process(1)), second = Group(of_process(2));
  ASSERT_NO_FATAL_FAILURE(Load(first));
  is_stopping_ = true;
  Floats parameters(kParameters, 1), states(1, 1);
  const FlatValues values{.parameters = parameters, .states = states, .slots = {}};
  ASSERT_TRUE(first.Pull({.fence = 7}, values, /*slots=*/true).ok());
  ASSERT_TRUE(second.Connect().ok());
  const absl::Status load = first.Load({.fence = 8, .total_steps = 9, .values = values});
  EXPECT_TRUE(absl::IsAborted(load)) << load;
  EXPECT_TRUE(absl::IsAborted(first.Saved().status()));
  EXPECT_TRUE(absl::IsAborted(first.Finish()));
  EXPECT_TRUE(second.Pull({.fence = 7}, values, /*slots=*/false).ok()) << "the values are here";
  EXPECT_TRUE(second.Finish().ok());
}

TEST_F(LoopbackTest, OnlyTheLeadingProcessLoads) {
  Caller caller = Worker0();
  caller.who.set_index(1);
  ShardGroup group = Group(caller);
  ASSERT_TRUE(group.Connect().ok());
  Floats parameters(kParameters, 1), states(1, 1);
  const FlatValues values{.parameters = parameters, .states = states, .slots = {}};
  EXPECT_TRUE(absl::IsAborted(group.Load({.fence = 8, .total_steps = 9, .values = values})));
}

TEST_F(LoopbackTest, TheLeadingProcessIsToldToLoad) {
  TaskLink link(addresses_[0], Worker0());
  ASSERT_TRUE(link.Connect().ok());
  proto::Next next;
  next.mutable_owner();
  const auto reply = link.Next(next);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->has_load());
}

}  // namespace
}  // namespace lockstep::train
