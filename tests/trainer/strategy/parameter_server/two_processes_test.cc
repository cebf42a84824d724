// A server and a worker, each in a process of its own. These tests come first in their program:
// they fork, and gRPC's threads outlive the other tests.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "tests/support/job_secret.h"
#include "tests/support/most_memory.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"

namespace lockstep::train {
namespace {

// Serves until the run is over. Sends its port through the pipe.
int Serve(const Pipe& port_pipe) {
  const SystemClock clock;
  const auto backend = MakeReferenceBackend();
  api::TrainingSpec training;
  training.optimizer = {.name = "SGD", .learning_rate = 1};
  const auto shard = *Shard::Create(training, *backend);
  auto server = ParameterServer::Start({.index = 0,
                                        .address = "127.0.0.1:0",
                                        .job = "job",
                                        .token = api::JobToken(testing::kJobSecret)},
                                       *shard, clock);
  if (!server.ok()) return 1;
  const int port = (*server)->port();
  if (write(port_pipe.write.fd(), &port, sizeof port) != sizeof port) return 1;
  (*server)->WaitForEnd();
  return 0;
}

Caller Worker(int index) {
  Caller caller{.who = {}, .token = api::JobToken(testing::kJobSecret)};
  caller.who.set_job("job");
  caller.who.set_role("worker");
  caller.who.set_index(index);
  caller.who.set_fingerprint("layout");
  return caller;
}

// Each test has a server, and all of them are forked before the first test uses gRPC.
class TwoProcessesTest : public ::testing::Test {
 protected:
  static constexpr int kServers = 2;
  struct Servers {
    std::vector<Pipe> pipes;
    std::unique_ptr<ForkedRanks> processes;
  };

  static void SetUpTestSuite() {
    for (int i = 0; i < kServers; ++i) servers_.pipes.push_back(*MakePipe());
    servers_.processes = std::make_unique<ForkedRanks>(
        kServers, [](int i) { return Serve(servers_.pipes[static_cast<std::size_t>(i)]); });
  }
  static void TearDownTestSuite() { servers_ = {}; }

  // The address of the server, once it serves.
  static std::string AddressOf(int server) {
    int port = 0;
    const int fd = servers_.pipes[static_cast<std::size_t>(server)].read.fd();
    EXPECT_EQ(read(fd, &port, sizeof port), static_cast<ssize_t>(sizeof port));
    return fmt::format("127.0.0.1:{}", port);
  }
  static ShardGroup Group(const std::string& address, int index) {
    return ShardGroup({.servers = {address},
                       .caller = Worker(index),
                       .plan = {{{0, 64}}},
                       .parameters = 64,
                       .states = 1});
  }

  static inline Servers servers_;
};

// Seven seconds are more than the servers' keepalive allows (grpc_options.cc).
TEST_F(TwoProcessesTest, AWorkerThatComputesForSevenSecondsStaysConnected) {
  const std::string address = AddressOf(0);
  TaskLink link(address, Worker(1));
  ShardGroup group = Group(address, 1);
  ASSERT_TRUE(link.Connect().ok());
  ASSERT_TRUE(group.Connect().ok());
  std::vector<float> parameters(64, 10), states(1, 5);
  const FlatValues values{.parameters = parameters, .states = states};
  ShardGroup leading = Group(address, 0);
  ASSERT_TRUE(leading.Connect().ok());
  ASSERT_TRUE(leading.Load({.fence = 7, .total_steps = 9, .values = values}).ok());
  std::this_thread::sleep_for(std::chrono::seconds(7));
  const auto pulled = group.Pull({.fence = 7}, values, /*slots=*/false);
  EXPECT_TRUE(pulled.ok()) << pulled.status();
  const auto reply = link.Next(proto::Next());
  EXPECT_TRUE(reply.ok()) << reply.status();
}

// As docs/sizing.md says: what it holds, and as much again while it is loaded.
TEST_F(TwoProcessesTest, AServerThatIsLoadedAgainHoldsTheValuesTwiceAtMost) {
  constexpr std::int64_t kFloats = 32 << 20, kBytes = kFloats * 4;
  ShardGroup group({.servers = {AddressOf(1)},
                    .caller = Worker(0),
                    .plan = {{{0, kFloats}}},
                    .parameters = kFloats,
                    .states = 0});
  ASSERT_TRUE(group.Connect().ok());
  std::vector<float> parameters(kFloats, 10);
  const FlatValues values{.parameters = parameters, .states = {}, .slots = {}};
  for (const std::uint64_t fence : {7, 8}) {
    ASSERT_TRUE(group.Load({.fence = fence, .total_steps = 9, .values = values}).ok());
  }
  const std::int64_t most = testing::MostMemoryOf(servers_.processes->pid(1));
  EXPECT_GT(most, kBytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what is freed
  // With what gRPC has received and the server has not read yet. Less than a third copy.
  constexpr std::int64_t kProgram = 112 << 20;
  EXPECT_LT(most, 2 * kBytes + kProgram);
#endif
  parameters.assign(kFloats, 0);
  ASSERT_TRUE(group.Pull({.fence = 8}, values, /*slots=*/false).ok());
  EXPECT_EQ(std::ranges::count(parameters, 10.0f), kFloats);
}

}  // namespace
}  // namespace lockstep::train
