#include "trainer/train/parameter_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/listener.h"
#include "tests/support/job_secret.h"
#include "tests/support/time_limit.h"
#include "tests/trainer/train/rank.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/rendezvous/gate/grpc_options.h"
#include "trainer/strategy/parameter_server/parameter_server.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;

class ParameterClientTest : public ::testing::Test {
 protected:
  // A client of a server of the job `job`. Time passes each time it asks whether to stop.
  std::unique_ptr<ParameterClient> Client(const std::string& job, bool successors_come) {
    Serve(job);
    return ClientOf({address_}, successors_come);
  }
  std::unique_ptr<ParameterClient> ClientOf(std::vector<std::string> servers,
                                            bool successors_come) {
    ParameterClientOptions options{.servers = std::move(servers),
                                   .longest_outage = longest_outage_,
                                   .successors_come = successors_come};
    options.caller.patience = connection_patience_;
    options.caller.token = api::JobToken(testing::kJobSecret);
    options.caller.who.set_job("job");
    options.caller.who.set_role("worker");
    options.leader_host = "leader";
    options.has_address = [this](const std::string& host) {
      if (host == "leader") ++lookups_;
      return host == "leader" ? leader_has_address_.load() : server_has_address_.load();
    };
    options.between_lookups = std::chrono::milliseconds(10);
    options.stop_requested = [this] {
      clock_.Advance(tick_);
      return ++ticks_ == patience_;
    };
    return std::make_unique<ParameterClient>(std::move(options), *session_, clock_, phases_);
  }

  // The server's pod is gone, and has no address.
  void LoseServer() {
    server_.reset();
    server_has_address_ = false;
  }
  // Another pod has the server's place and address.
  void ReplaceServer() { Serve("job"); }

  // What worker 1 is told that the run lacks, once that is `expected`, or after 20 answers.
  std::string MissingUntil(const std::string& expected) {
    Caller caller{.who = {}, .token = api::JobToken(testing::kJobSecret)};
    caller.who.set_job("job");
    caller.who.set_role("worker");
    caller.who.set_index(1);
    caller.who.set_fingerprint(session_->Fingerprint());
    TaskLink link(address_, caller);
    EXPECT_TRUE(link.Connect().ok());
    proto::Next next;
    next.set_wants_task(true);
    std::string missing;
    for (int i = 0; i < 20; ++i) {  // each takes half a second
      const auto reply = link.Next(next);
      EXPECT_TRUE(reply.ok() && reply->has_wait()) << reply.status();
      missing = reply.ok() ? reply->wait().missing() : "";
      if (missing == expected) break;
    }
    return missing;
  }

  testing::FakeClock clock_;
  PhaseClock phases_{clock_};
  Duration longest_outage_ = std::chrono::minutes(5), tick_ = std::chrono::minutes(1);
  int ticks_ = 0, patience_ = 30;  // ticks
  Duration connection_patience_ = std::chrono::seconds(5);
  std::atomic<bool> server_stops_ = false;
  std::string address_ = "127.0.0.1:0";
  // The memory of the server for what is loaded.
  MakeContent make_content_ = &SharedContent::Create;
  std::atomic<bool> leader_has_address_ = true, server_has_address_ = true;
  std::atomic<int> lookups_ = 0;
  const std::unique_ptr<Session> session_ =
      *Session::Create({.training = SmallTraining(), .world = 1, .backend = "reference"});

 private:
  void Serve(const std::string& job) {
    server_.reset();
    shard_ = *Shard::Create(SmallTraining(), *backend_);
    ParameterServerOptions options{
        .index = 0,
        .address = address_,
        .job = job,
        .token = api::JobToken(testing::kJobSecret),
        .stop_requested = [this] { return server_stops_.load(); },
        .make_content = [this](std::int64_t floats) { return make_content_(floats); }};
    server_ = *ParameterServer::Start(std::move(options), *shard_, real_clock_);
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }

  const SystemClock real_clock_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<ParameterServer> server_;
};

TEST_F(ParameterClientTest, AServerOfAnotherRunIsWaitedOutWhileSuccessorsCome) {
  const absl::Status ended = Client("another", true)->Next(proto::Next()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(ended)) << ended;
  EXPECT_THAT(std::string(ended.message()), HasSubstr("this server of another"));
  EXPECT_EQ(ticks_, 6);
}

TEST_F(ParameterClientTest, AServerOfAnotherRunIsAMistakeWhereNoSuccessorsCome) {
  const absl::Status ended = Client("another", false)->Next(proto::Next()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(ended)) << ended;
  EXPECT_EQ(ticks_, 0);
}

TEST_F(ParameterClientTest, AServerIsAwaitedForAsLongAsItsPodIsYetToCome) {
  const auto client = Client("job", true);
  ASSERT_TRUE(client->Next(proto::Next()).ok());
  LoseServer();
  EXPECT_TRUE(absl::IsCancelled(client->Next(proto::Next()).status()));
  EXPECT_EQ(ticks_, patience_);
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

// Each attempt sends all values. With pauses that do not grow, there would be one in two ticks.
TEST_F(ParameterClientTest, AServerWithoutMemoryIsAskedEverMoreRarely) {
  longest_outage_ = std::chrono::minutes(1);
  tick_ = std::chrono::seconds(1);
  patience_ = 1000;
  std::atomic<int> asked = 0;
  make_content_ = [&](std::int64_t) {
    ++asked;
    return absl::ResourceExhaustedError("no memory");
  };
  const absl::Status refused =
      Client("job", true)->Load(/*fence=*/7, /*parts=*/0, RunState{.step = 0});
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(refused.message(), "ps 0: no memory");
  EXPECT_THAT(asked.load(), AllOf(Ge(8), Le(15)));
}

TEST_F(ParameterClientTest, AServerIsLoadedOnceItHasTheMemory) {
  std::atomic<int> asked = 0;
  make_content_ = [&](std::int64_t floats) -> absl::StatusOr<std::unique_ptr<SharedContent>> {
    if (++asked < 3) return absl::ResourceExhaustedError("no memory");
    return SharedContent::Create(floats);
  };
  const absl::Status loaded =
      Client("job", true)->Load(/*fence=*/7, /*parts=*/0, RunState{.step = 0});
  EXPECT_TRUE(loaded.ok()) << loaded;
  EXPECT_EQ(asked, 3);
}

TEST_F(ParameterClientTest, WaitsForAsLongAsTheJobSays) {
  Identity identity;
  identity.cluster.worker = {"worker:1"};
  identity.cluster.ps = {"server:1"};
  identity.training.rendezvous_timeout_seconds = 7;
  EXPECT_EQ(ParameterClientOptionsFor(identity).longest_outage, std::chrono::seconds(7));
}

// Between its calls, as when it evaluates.
TEST_F(ParameterClientTest, AProcessThatIsBusyIsKnownToTheSuccessorOfServerZero) {
  const auto client = Client("job", true);
  client->StayConnected();
  ASSERT_TRUE(client->Next(proto::Next()).ok());
  ReplaceServer();
  EXPECT_EQ(MissingUntil(""), "");
}

// Takes calls, and says nothing.
class SilentServer final : private proto::ParameterServer::Service {
 public:
  SilentServer() {
    grpc::ServerBuilder builder;
    SetServerOptions(builder);  // or the caller's pings would end the connection
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SilentServer() override {
    HangUp();
    server_->Shutdown();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  void WaitForCaller() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_called_; });
  }
  void HangUp() {
    const std::lock_guard lock(mutex_);
    hangs_up_ = true;
    changed_.notify_all();
  }

 private:
  grpc::Status Coordinate(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::TaskReply, proto::WorkerRequest>*) override {
    std::unique_lock lock(mutex_);
    is_called_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return hangs_up_; });
    return grpc::Status::CANCELLED;
  }

  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_called_ = false, hangs_up_ = false;  // guarded by mutex_
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ParameterClientTest, AProcessThatEndsDoesNotWaitForAServerThatIsSilent) {
  SilentServer silent;
  connection_patience_ = std::chrono::hours(1);
  auto client = ClientOf({silent.address()}, true);
  client->StayConnected();
  silent.WaitForCaller();
  const auto ended = std::async(std::launch::async, [&] { client.reset(); });
  EXPECT_EQ(ended.wait_for(testing::Slowed(std::chrono::seconds(60))), std::future_status::ready);
  silent.HangUp();
}

TEST_F(ParameterClientTest, AProcessThatEndsDoesNotWaitForAServerThatCannotBeConnected) {
  connection_patience_ = std::chrono::hours(1);
  Duration shortest = Duration::max();
  for (int i = 0; i < 3; ++i) {
    const auto deaf = ListenAt("127.0.0.1:0", 8);  // connections wait, and nobody says a word
    ASSERT_TRUE(deaf.ok());
    auto client = ClientOf({fmt::format("127.0.0.1:{}", deaf->port)}, true);
    client->StayConnected();
    pollfd caller{.fd = deaf->socket.fd(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&caller, 1, /*timeout=*/60'000), 1);
    const auto start = std::chrono::steady_clock::now();
    client.reset();
    shortest = std::min<Duration>(shortest, std::chrono::steady_clock::now() - start);
  }
  // The attempt to connect ends after two seconds.
  EXPECT_LT(shortest, testing::TimeLimit(std::chrono::seconds(1)));
}

TEST_F(ParameterClientTest, WhatOneServerSaysOfItsValuesIsNotKeptWaitingForAnotherThatIsAway) {
  ASSERT_TRUE(Client("job", true)->Load(/*fence=*/7, /*parts=*/0, RunState{.step = 0}).ok());
  const std::string away = fmt::format("127.0.0.1:{}", ListenAt("127.0.0.1:0", 1)->port);
  const auto client = ClientOf({address_, away}, true);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client->Check(7))) << "the other may have lost its values";
  const int before = ticks_;
  EXPECT_TRUE(absl::IsFailedPrecondition(client->Check(8)));
  server_stops_ = true;
  EXPECT_TRUE(client->Check(7).ok());
  EXPECT_TRUE(client->IsServerStopping());
  EXPECT_EQ(ticks_, before);
}

// Adam's first update moves each parameter by the learning rate, however many steps were before.
TEST_F(ParameterClientTest, AServerIsToldOfTheStepsThatUpdatedNothing) {
  const auto client = Client("job", true);
  const RunState state{.step = 10, .skipped_steps = 7, .left_out_steps = 3};
  ASSERT_TRUE(client->Load(/*fence=*/7, /*parts=*/0, state).ok());
  std::ranges::fill(session_->model().gradients(), 1.0f);
  const float before = session_->model().parameters().front();
  ASSERT_TRUE(client->Push({.fence = 7, .step = 10, .versions = {10}}).ok());
  ASSERT_TRUE(client->Pull({.fence = 7, .version = 11}, /*slots=*/false).ok());
  EXPECT_NEAR(before - session_->model().parameters().front(), 0.01, 1e-5);
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
