#include "operator/controller/memory/expectations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "tests/support/hooked_client.h"
#include "tests/support/time_limit.h"

namespace lockstep::controller {
namespace {

using testing::HookedClient;

// Many creates of a large job may lose their answers together, and each question may take as long
// as the server's slowest answer.
TEST(ExpectationsTest, WritesOfUnknownOutcomeAreAskedForSeveralAtATime) {
  constexpr int kWrites = 9, kAtOnce = 4;
  HookedClient client;
  std::mutex mutex;
  std::condition_variable changed;
  int asked = 0, asks = 0, most = 0;
  client.SetBefore([&](const HookedClient::Call& call) {
    EXPECT_EQ(call.verb, "get");
    std::unique_lock lock(mutex);
    most = std::max(most, ++asks);
    ++asked;
    changed.notify_all();
    // The first ones are answered when there are as many as there may be.
    EXPECT_TRUE(changed.wait_for(lock, testing::Slowed(std::chrono::seconds(20)),
                                 [&] { return asked >= kAtOnce; }));
    --asks;
    return call.name == "p0" ? absl::UnavailableError("no answer") : absl::OkStatus();
  });
  Expectations expectations;
  for (int i = 0; i < kWrites; ++i) {
    expectations.MayHaveWritten(kube::kPodKind, {"default", "p" + std::to_string(i)});
  }
  ThreadPool pool(16);
  const Stores stores;  // nothing was written, so that none is looked at
  EXPECT_EQ(expectations.Resolve(client, stores, {}, pool, kAtOnce).message(), "no answer");
  EXPECT_EQ(asked, kWrites) << "one that is not answered stops no other";
  EXPECT_EQ(most, kAtOnce);
  EXPECT_FALSE(expectations.Resolve(client, stores, {}, pool, kAtOnce).ok());
  EXPECT_EQ(asked, kWrites + 1) << "only what is still unknown is asked for again";
}

}  // namespace
}  // namespace lockstep::controller
