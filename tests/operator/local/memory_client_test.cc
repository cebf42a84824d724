#include "operator/local/memory_client.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <limits>

#include "base/rfc3339.h"
#include "tests/operator/local/client_conformance.h"
#include "tests/support/hooked_client.h"

namespace lockstep::local {
namespace {

using kube::Object;

const SystemClock kClock;

INSTANTIATE_TEST_SUITE_P(
    MemoryClient, ClientConformanceTest,
    ::testing::Values(
        ClientUnderTest{"memory", [] { return std::make_unique<MemoryClient>(kClock); }},
        // What the operator's tests run against. Without hooks it must be no other server.
        ClientUnderTest{.name = "hooked",
                        .make = [] { return std::make_unique<testing::HookedClient>(kClock); },
                        .collects_garbage = false}),
    [](const auto& instance) { return instance.param.name; });

Object Config(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", "default"}}}};
}

Object Pod(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "default"}}},
          {"spec", {{"terminationGracePeriodSeconds", 7}}}};
}

TEST(MemoryClientTest, ABoundPodStaysUntilItsKubeletConfirms) {
  MemoryClient client(kClock, {.history = 64, .node_name = "local"});
  const auto pod = client.Create(kube::kPodKind, Pod("a"));
  ASSERT_TRUE(pod.ok());
  EXPECT_EQ((*pod)["spec"]["nodeName"], "local");
  ASSERT_TRUE(client.Delete(kube::kPodKind, {"default", "a"}, {}).ok());
  const auto dying = client.Get(kube::kPodKind, {"default", "a"});
  ASSERT_TRUE(dying.ok());
  EXPECT_TRUE(kube::IsBeingDeleted(*dying));
  EXPECT_EQ((*dying)["metadata"]["deletionGracePeriodSeconds"], 7);
  EXPECT_TRUE(absl::IsNotFound(client.ConfirmDeleted({"default", "a"}, "another")));
  ASSERT_TRUE(client.ConfirmDeleted({"default", "a"}, kube::Uid(*pod)).ok());
  EXPECT_TRUE(absl::IsNotFound(client.Get(kube::kPodKind, {"default", "a"}).status()));
}

TEST(MemoryClientTest, AGracePeriodWithoutEndLiesInTheFuture) {
  MemoryClient client(kClock, {.history = 64, .node_name = "local"});
  Object pod = Pod("a");
  pod["spec"]["terminationGracePeriodSeconds"] = std::numeric_limits<std::int64_t>::max();
  ASSERT_TRUE(client.Create(kube::kPodKind, pod).ok());
  ASSERT_TRUE(client.Delete(kube::kPodKind, {"default", "a"}, {}).ok());
  const Object dying = *client.Get(kube::kPodKind, {"default", "a"});
  const auto end =
      ParseRfc3339(dying["metadata"]["deletionTimestamp"].get_ref<const std::string&>());
  ASSERT_TRUE(end.has_value());
  EXPECT_GT(*end, kClock.Now());
}

TEST(MemoryClientTest, AnEndedPodIsDeletedAtOnce) {
  MemoryClient client(kClock, {.history = 64, .node_name = "local"});
  Object pod = *client.Create(kube::kPodKind, Pod("a"));
  pod["status"]["phase"] = "Succeeded";
  ASSERT_TRUE(client.UpdateStatus(kube::kPodKind, pod).ok());
  ASSERT_TRUE(client.Delete(kube::kPodKind, {"default", "a"}, {}).ok());
  EXPECT_TRUE(absl::IsNotFound(client.Get(kube::kPodKind, {"default", "a"}).status()));
}

TEST(MemoryClientTest, AWatchFromBeforeItsHistoryMustListAgain) {
  MemoryClient client(kClock, {.history = 2, .node_name = ""});
  for (const char* name : {"a", "b", "c"})
    ASSERT_TRUE(client.Create(kConfigKind, Config(name)).ok());
  WatchRecorder late(client, kConfigKind, WatchOf("", "2"));
  EXPECT_EQ(late.Await(2).size(), 2U);  // the history still contains b and c
  ASSERT_TRUE(client.Create(kConfigKind, Config("d")).ok());
  WatchRecorder too_late(client, kConfigKind, WatchOf("", "2"));
  EXPECT_TRUE(absl::IsOutOfRange(too_late.AwaitEnd()));
}

TEST(MemoryClientTest, AWatchOfTheFutureOrOfNonsenseIsRefused) {
  MemoryClient client(kClock);
  WatchRecorder future(client, kConfigKind, WatchOf("", "7"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(future.AwaitEnd()));
  WatchRecorder nonsense(client, kConfigKind, WatchOf("", "x"));
  EXPECT_TRUE(absl::IsFailedPrecondition(nonsense.AwaitEnd()));
}

TEST(MemoryClientTest, AQuietWatchGetsBookmarks) {
  MemoryClient client(kClock);
  const auto page = client.List(kube::kPodKind, ListOf(""));
  ASSERT_TRUE(page.ok());
  WatchRecorder watch(client, kube::kPodKind, WatchOf("", page->resource_version));
  for (int i = 0; i < 64; ++i) {
    ASSERT_TRUE(client.Create(kConfigKind, Config("c" + std::to_string(i))).ok());
  }
  EXPECT_TRUE(watch.AwaitBookmark());
}

TEST(MemoryClientTest, AnExpiredContinueTokenMeansListAgain) {
  MemoryClient client(kClock);
  const auto page = client.List(kConfigKind, ListOf("", "", "gone"));
  EXPECT_TRUE(absl::IsOutOfRange(page.status()));
}

TEST(MemoryClientTest, ASecretsStringDataIsKeptEncoded) {
  MemoryClient client(kClock);
  const kube::Kind secret{"", "v1", "Secret", "secrets"};
  Object object = Config("s");
  object["kind"] = "Secret";
  object["stringData"] = {{"token", "abc"}};
  const auto made = client.Create(secret, object);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->contains("stringData"));
  EXPECT_EQ((*made)["data"]["token"], "YWJj");
}

TEST(MemoryClientTest, AnObjectWithALivingOwnerLosesOnlyTheDeadOne) {
  MemoryClient client(kClock);
  const Object dead = *client.Create(kConfigKind, Config("dead"));
  const Object living = *client.Create(kConfigKind, Config("living"));
  Object child = Config("child");
  for (const Object* owner : {&dead, &living}) {
    child["metadata"]["ownerReferences"].push_back(
        {{"kind", "ConfigMap"}, {"name", kube::Name(*owner)}, {"uid", kube::Uid(*owner)}});
  }
  ASSERT_TRUE(client.Create(kConfigKind, child).ok());
  WatchRecorder watch(client, kConfigKind, WatchOf(""));
  ASSERT_EQ(watch.Await(3).size(), 3U);
  ASSERT_TRUE(client.Delete(kConfigKind, {"default", "dead"}, {}).ok());
  const auto events = watch.Await(5);
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(kube::Name(events[4].object), "child");
  ASSERT_EQ(events[4].object["metadata"]["ownerReferences"].size(), 1U);
  EXPECT_EQ(events[4].object["metadata"]["ownerReferences"][0]["uid"], kube::Uid(living));
}

TEST(MemoryClientTest, EventsOfAllKindsComeInTheirOrder) {
  MemoryClient client(kClock);
  ASSERT_TRUE(client.Create(kConfigKind, Config("a")).ok());
  const std::string before = client.List(kConfigKind, ListOf(""))->resource_version;
  ASSERT_TRUE(client.Create(kube::kPodKind, Pod("b")).ok());
  ASSERT_TRUE(client.Delete(kConfigKind, {"default", "a"}, {}).ok());
  const auto events = client.EventsAfter(std::stoull(before));
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ(kube::Name(events->at(0).object), "b");
  EXPECT_EQ(events->at(1).type, kube::WatchEvent::Type::kDeleted);
  EXPECT_EQ(kube::Name(events->at(1).object), "a");
}

TEST(MemoryClientTest, WithTheSameSeedUidsAreTheSame) {
  const auto uid = [](std::optional<std::uint64_t> seed) {
    MemoryClient client(kClock, {.seed = seed});
    return kube::Uid(*client.Create(kConfigKind, Config("a")));
  };
  EXPECT_EQ(uid(7), uid(7));
  EXPECT_NE(uid(7), uid(8));
  EXPECT_NE(uid(std::nullopt), uid(std::nullopt));
}

TEST(MemoryClientTest, OfManyWritersOfOneVersionOneWins) {
  MemoryClient client(kClock);
  const Object object = *client.Create(kConfigKind, Config("a"));
  std::atomic<int> won = 0, aborted = 0;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 8; ++i) {
      writers.emplace_back([&, i] {
        Object mine = object;
        mine["data"]["value"] = std::to_string(i);
        const absl::Status status = client.Update(kConfigKind, mine).status();
        if (status.ok()) ++won;
        if (absl::IsAborted(status)) ++aborted;
      });
    }
  }
  EXPECT_EQ(won, 1);
  EXPECT_EQ(aborted, 7);
}

}  // namespace
}  // namespace lockstep::local
