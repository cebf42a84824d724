#include "trainer/train/parameter_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/trainer/train/rank.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/strategy/parameter_server/parameter_server.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr char kSecret[] = "a secret of the job";

class ParameterClientTest : public ::testing::Test {
 protected:
  // A client of a server of the job `job`. A minute passes each time it asks whether to stop.
  std::unique_ptr<ParameterClient> Client(const std::string& job, bool successors_come) {
    ParameterClientOptions options{.servers = {Serve(job)}, .successors_come = successors_come};
    options.caller.token = api::JobToken(kSecret);
    options.caller.who.set_job("job");
    options.leader_host = "leader";
    options.has_address = [this](const std::string& host) {
      if (host == "leader") ++lookups_;
      return host == "leader" ? leader_has_address_.load() : server_has_address_.load();
    };
    options.stop_requested = [this] {
      clock_.Advance(std::chrono::minutes(1));
      return ++minutes_ == kPatience;
    };
    return std::make_unique<ParameterClient>(std::move(options), *session_, clock_);
  }

  // The server's pod is gone, and has no address.
  void LoseServer() {
    server_.reset();
    server_has_address_ = false;
  }

  static constexpr int kPatience = 30;  // minutes
  testing::FakeClock clock_;
  int minutes_ = 0;
  std::atomic<bool> leader_has_address_ = true, server_has_address_ = true;
  std::atomic<int> lookups_ = 0;

 private:
  std::string Serve(const std::string& job) {
    shard_ = *Shard::Create(SmallTraining(), *backend_);
    ParameterServerOptions options{
        .index = 0, .address = "127.0.0.1:0", .job = job, .token = api::JobToken(kSecret)};
    server_ = *ParameterServer::Start(std::move(options), *shard_, real_clock_);
    return fmt::format("127.0.0.1:{}", server_->port());
  }

  const SystemClock real_clock_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  const std::unique_ptr<Session> session_ =
      *Session::Create({.training = SmallTraining(), .world = 1, .backend = "reference"});
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ParameterClientTest, AServerOfAnotherRunIsWaitedOutWhileSuccessorsCome) {
  const absl::Status ended = Client("another", true)->Next(proto::Next()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("this server of another"));
  EXPECT_EQ(minutes_, 6);
}

TEST_F(ParameterClientTest, AServerOfAnotherRunIsAMistakeWhereNoSuccessorsCome) {
  const absl::Status ended = Client("another", false)->Next(proto::Next()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(ended)) << ended;
  EXPECT_EQ(minutes_, 0);
}

TEST_F(ParameterClientTest, AServerIsAwaitedForAsLongAsItsPodIsYetToCome) {
  const auto client = Client("job", true);
  ASSERT_TRUE(client->Next(proto::Next()).ok());
  LoseServer();
  EXPECT_TRUE(absl::IsCancelled(client->Next(proto::Next()).status()));
  EXPECT_EQ(minutes_, kPatience);
}

// Nobody is coming any more: the run has ended without this process.
TEST_F(ParameterClientTest, ARunWhoseServersAndLeadingProcessAreGoneIsNotAwaitedForEver) {
  const auto client = Client("job", true);
  ASSERT_TRUE(client->Next(proto::Next()).ok());
  LoseServer();
  leader_has_address_ = false;
  const absl::Status ended = client->Next(proto::Next()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
}

TEST_F(ParameterClientTest, ARunThatHasNotBegunIsAwaited) {
  const auto client = Client("job", true);
  LoseServer();
  leader_has_address_ = false;
  EXPECT_TRUE(absl::IsCancelled(client->Next(proto::Next()).status()));
}

TEST_F(ParameterClientTest, WaitsForAsLongAsTheJobSays) {
  Identity identity;
  identity.cluster.worker = {"worker:1"};
  identity.cluster.ps = {"server:1"};
  identity.training.rendezvous_timeout_seconds = 7;
  EXPECT_EQ(ParameterClientOptionsFor(identity).longest_outage, std::chrono::seconds(7));
}

TEST_F(ParameterClientTest, TheLeadingProcessIsAwaitedForAsLongAsItsPodIsYetToCome) {
  const auto client = Client("job", true);
  leader_has_address_ = false;
  const auto wait = [&] { return client->NoteWait("it to load", "worker 0"); };
  EXPECT_TRUE(wait().ok());
  while (lookups_ < 2) std::this_thread::yield();  // so the first one's result is known
  for (int minute = 0; minute < 30; ++minute) {
    clock_.Advance(std::chrono::minutes(1));
    EXPECT_TRUE(wait().ok()) << minute;
  }
  leader_has_address_ = true;
  for (const int from = lookups_; lookups_ < from + 3;) std::this_thread::yield();
  EXPECT_TRUE(wait().ok());
  clock_.Advance(std::chrono::minutes(5));
  EXPECT_TRUE(absl::IsDeadlineExceeded(wait()));
}

}  // namespace
}  // namespace lockstep::train
