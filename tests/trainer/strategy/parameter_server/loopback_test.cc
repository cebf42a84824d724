// The servers' and the workers' ends of the protocol, over loopback in one process.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "trainer/backend/reference/reference.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"

namespace lockstep::train {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Floats = std::vector<float>;

constexpr char kSecret[] = "a secret of the job";
constexpr std::int64_t kParameters = 64;

class LoopbackTest : public ::testing::Test {
 protected:
  void SetUp() override {
    api::TrainingSpec training;
    training.optimizer = {.name = "SGD", .learning_rate = 1};
    for (int i = 0; i < 2; ++i) {
      shards_.push_back(*Shard::Create(training, *backend_));
      ParameterServerOptions options{
          .index = i, .address = "127.0.0.1:0", .job = "job", .token = api::JobToken(kSecret)};
      auto server = ParameterServer::Start(std::move(options), *shards_.back(), clock_);
      ASSERT_TRUE(server.ok()) << server.status();
      servers_.push_back(*std::move(server));
      addresses_.push_back(fmt::format("127.0.0.1:{}", servers_.back()->port()));
    }
  }
  static Caller Worker0(const std::string& secret = kSecret, const std::string& job = "job") {
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
  const auto versions = group.Pull({.fence = 7}, values, /*all=*/false);
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(1, 1));
  EXPECT_THAT(parameters, Each(7));
  EXPECT_THAT(states, ElementsAre(6));
  const auto fenced = group.Push(
      {.fence = 8, .step = 1, .versions = {1, 1}, .gradients = gradients, .states = change});
  EXPECT_TRUE(absl::IsFailedPrecondition(fenced.status())) << fenced.status();
  EXPECT_TRUE(group.Pull({.fence = 7}, values, /*all=*/false).ok()) << "the streams go on";
  EXPECT_THAT(parameters, Each(7));
}

TEST_F(LoopbackTest, ACallerWithoutTheTokenOrOfAnotherJobIsRefusedForGood) {
  for (const Caller& caller : {Worker0("another secret of a job"), Worker0(kSecret, "another")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Group(caller).Connect()));
    EXPECT_TRUE(absl::IsInvalidArgument(TaskLink(addresses_[0], caller).Connect()));
  }
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
