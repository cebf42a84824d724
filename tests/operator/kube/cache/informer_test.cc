#include "operator/kube/cache/informer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "operator/kube/stream_end.h"
#include "tests/support/hooked_client.h"
#include "tests/support/time_limit.h"
#include "tests/support/whole_object.h"

namespace lockstep::kube {
namespace {

using ::testing::ElementsAre;
using testing::HookedClient;
using ::testing::UnorderedElementsAre;

Object Pod(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "n"}}},
          {"spec", {{"junk", "much"}}}};
}

// Records what the handlers were called with, and can wait for it.
class ChangeLog {
 public:
  std::function<void(const Identity* before, const Identity* after)> Handler() {
    return [this](const Identity* before, const Identity* after) {
      if (before == nullptr) return Note("+" + after->key.name);
      Note((after == nullptr ? "-" : "~") + before->key.name);
    };
  }
  // Blocks until there are `count` entries; the test's time limit ends a futile wait.
  std::vector<std::string> WaitFor(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entries_.size() >= count; });
    return entries_;
  }

 private:
  void Note(std::string entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(entry));
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> entries_;
};

struct InformerTest : ::testing::Test {
  using OnChange = std::function<void(const Identity* before, const Identity* after)>;
  void Start(int page_size = 500) { Start(page_size, journal.Handler()); }
  void Start(int page_size, OnChange on_change) {
    informer.emplace(client, kPodKind,
                     ReflectorOptions{.namespace_name = "",
                                      .label_selector = "",
                                      .page_size = page_size,
                                      .keep = {},
                                      .backoff = {.initial = std::chrono::microseconds(100),
                                                  .limit = std::chrono::milliseconds(1)}},
                     [](const Object& pod) { return pod.at("metadata"); });
    informer->SetHandler(std::move(on_change));
    informer->Start();
  }
  void Create(const std::string& name) { ASSERT_TRUE(client.Create(kPodKind, Pod(name)).ok()); }

  HookedClient client;
  ChangeLog journal;
  std::optional<Informer<Object>> informer;
};

TEST_F(InformerTest, ListsInPagesThenFollowsTheWatch) {
  for (const char* name : {"a", "b", "c"}) Create(name);
  Start(/*page_size=*/2);
  ASSERT_TRUE(informer->WaitForSync());
  EXPECT_EQ(client.Count("list", "Pod"), 2);
  Create("d");
  client.Modify(kPodKind, {"n", "a"}, [](Object& pod) { pod["status"]["phase"] = "Running"; });
  ASSERT_TRUE(client.Delete(kPodKind, {"n", "b"}, {}).ok());
  EXPECT_THAT(journal.WaitFor(6), ElementsAre("+a", "+b", "+c", "+d", "~a", "-b"));
  EXPECT_EQ(informer->store().size(), 3U);
}

TEST_F(InformerTest, KeepsWhatTheReaderMakesOfAnObject) {
  Create("a");
  Start();
  ASSERT_TRUE(informer->WaitForSync());
  const auto kept = informer->store().Get({"n", "a"});
  EXPECT_EQ(kept->value.at("name"), "a");
  EXPECT_FALSE(kept->uid.empty());
}

TEST_F(InformerTest, AnObjectThatCannotBeReadDoesNotStopTheOthers) {
  Create("a");
  Create("b");
  const auto read = [](const Object& pod) {
    if (Name(pod) == "a" || Name(pod) == "c") throw std::runtime_error("unheard of");
    return Name(pod);
  };
  Informer<std::string> reading(client, kPodKind, {}, read);
  reading.SetHandler(journal.Handler());
  reading.Start();
  ASSERT_TRUE(reading.WaitForSync());
  Create("c");
  Create("d");
  EXPECT_THAT(journal.WaitFor(2), ElementsAre("+b", "+d"));
  EXPECT_EQ(reading.size(), 2U);
}

// Records what each list call asked for: "4", "4 from list-1" with a continue token.
struct Lists {
  HookedClient::Hook FailingWith(std::map<std::size_t, absl::Status> ends) {
    return [this, ends = std::move(ends)](const HookedClient::Call& call) {
      if (call.verb != "list") return absl::OkStatus();
      asked.push_back(std::to_string(call.limit) + (call.name.empty() ? "" : " from " + call.name));
      const auto end = ends.find(asked.size());
      return end == ends.end() ? absl::OkStatus() : end->second;
    };
  }
  std::vector<std::string> asked;  // read it only once the informer has synced
};

TEST_F(InformerTest, AListThatBreaksOffGoesOnWhereItWas) {
  for (const char* name : {"a", "b", "c", "d", "e"}) Create(name);
  Lists lists;
  client.SetBefore(lists.FailingWith({{2, absl::UnavailableError("cut off")},
                                      {3, absl::ResourceExhaustedError("too many requests")}}));
  Start(/*page_size=*/2);
  ASSERT_TRUE(informer->WaitForSync());
  EXPECT_THAT(lists.asked,
              ElementsAre("2", "2 from list-1", "2 from list-1", "2 from list-1", "2 from list-2"));
  EXPECT_THAT(journal.WaitFor(5), ElementsAre("+a", "+b", "+c", "+d", "+e"));
}

TEST_F(InformerTest, IsCurrentForAWhileAfterEachAnswerOfTheServer) {
  Create("a");
  Start();
  ASSERT_TRUE(informer->WaitForSync());
  EXPECT_TRUE(informer->IsCurrent(std::chrono::hours(1)));
  const auto begin = std::chrono::steady_clock::now();
  while (informer->IsCurrent(std::chrono::milliseconds(50))) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, testing::Slowed(std::chrono::seconds(20)));
  }
  Create("b");
  EXPECT_THAT(journal.WaitFor(2), ElementsAre("+a", "+b"));
  EXPECT_TRUE(informer->IsCurrent(std::chrono::steady_clock::now() - begin));
}

// A server may send nothing else if no object changes.
TEST_F(InformerTest, AWatchWhoseTimeIsOverShowsThatItWorked) {
  Create("a");
  Start();
  ASSERT_TRUE(informer->WaitForSync());
  Create("b");
  journal.WaitFor(2);  // by the watch, which is open now
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(informer->IsCurrent(std::chrono::steady_clock::now() - begin));
  client.EndWatches(absl::OkStatus());
  while (!informer->IsCurrent(std::chrono::steady_clock::now() - begin)) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, testing::Slowed(std::chrono::seconds(20)));
  }
}

TEST_F(InformerTest, AListWhoseTokenIsRefusedBeginsAgain) {
  for (const char* name : {"a", "b", "c"}) Create(name);
  std::map<std::size_t, absl::Status> ends{{2, absl::OutOfRangeError("expired")},
                                           {4, absl::FailedPreconditionError("bad token")}};
  for (std::size_t i = 6; i < 16; ++i) ends[i] = absl::UnavailableError("cannot be read");
  Lists lists;
  client.SetBefore(lists.FailingWith(ends));
  Start(/*page_size=*/2);
  ASSERT_TRUE(informer->WaitForSync());
  std::vector<std::string> expected = {"2", "2 from list-1", "2", "2 from list-2", "2"};
  expected.insert(expected.end(), 10, "2 from list-3");
  expected.insert(expected.end(), {"2", "2 from list-4"});
  EXPECT_EQ(lists.asked, expected);
  EXPECT_THAT(journal.WaitFor(3), ElementsAre("+a", "+b", "+c"));
}

TEST_F(InformerTest, APageThatIsNotThereInTimeIsAskedForInHalves) {
  for (const char* name : {"a", "b", "c"}) Create(name);
  Lists lists;
  client.SetBefore(lists.FailingWith(
      {{1, absl::DeadlineExceededError("slow")}, {2, absl::DeadlineExceededError("slow")}}));
  Start(/*page_size=*/8);
  ASSERT_TRUE(informer->WaitForSync());
  EXPECT_THAT(lists.asked, ElementsAre("8", "4", "2", "2 from list-1"));
}

TEST_F(InformerTest, AForgottenVersionIsListedAgainAndTheDifferenceIsReported) {
  Create("a");
  Create("b");
  Start();
  journal.WaitFor(2);
  // Between the two watches one pod is deleted, one created, one replaced by a namesake.
  client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "watch" || call.verb == "list" ? absl::UnavailableError("cut off")
                                                       : absl::OkStatus();
  });
  client.EndWatches(absl::UnavailableError("cut off"));
  ASSERT_TRUE(client.Delete(kPodKind, {"n", "a"}, {}).ok());
  ASSERT_TRUE(client.Delete(kPodKind, {"n", "b"}, {}).ok());
  Create("b");
  Create("c");
  client.ForgetHistory();
  client.SetBefore({});
  EXPECT_THAT(journal.WaitFor(6), ElementsAre("+a", "+b", "-a", "-b", "+b", "+c"));
}

TEST_F(InformerTest, AnObjectThatCannotBeReadAnyMoreIsNotDeleted) {
  Create("a");
  std::atomic<bool> breaks{false};
  Informer<std::string> reading(
      client, kPodKind,
      ReflectorOptions{.backoff = {.initial = std::chrono::microseconds(100),
                                   .limit = std::chrono::milliseconds(1)}},
      [&breaks](const Object& pod) {
        if (breaks && Name(pod) == "a") throw std::runtime_error("unheard of");
        return Name(pod);
      });
  reading.SetHandler(journal.Handler());
  reading.Start();
  journal.WaitFor(1);
  breaks = true;
  client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "watch" || call.verb == "list" ? absl::UnavailableError("cut off")
                                                       : absl::OkStatus();
  });
  client.EndWatches(absl::UnavailableError("cut off"));
  Create("b");
  client.ForgetHistory();  // so it lists again
  client.SetBefore({});
  EXPECT_THAT(journal.WaitFor(2), ElementsAre("+a", "+b"));
  EXPECT_EQ(reading.size(), 2U);
}

// A worker may reconcile a job before the handler that has queued it returns.
TEST_F(InformerTest, IsCurrentWhenALaterListReportsAChange) {
  Create("a");
  std::atomic<SteadyTime> begin{SteadyTime::max()};  // of the second list
  std::atomic<bool> was_current{false};
  Start(500, [&, note = journal.Handler()](const Identity* before, const Identity* after) {
    if (before == nullptr && after->key.name == "b") {
      was_current = informer->IsCurrent(std::chrono::steady_clock::now() - begin.load());
    }
    note(before, after);
  });
  ASSERT_TRUE(informer->WaitForSync());
  Create("x");
  journal.WaitFor(2);  // by the watch, which is open now
  client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "watch" || call.verb == "list" ? absl::UnavailableError("cut off")
                                                       : absl::OkStatus();
  });
  client.EndWatches(absl::UnavailableError("cut off"));
  Create("b");
  client.ForgetHistory();
  client.SetBefore([&begin](const HookedClient::Call& call) {
    if (call.verb == "list") begin = std::chrono::steady_clock::now();
    return absl::OkStatus();
  });
  journal.WaitFor(3);
  EXPECT_TRUE(was_current);
}

TEST_F(InformerTest, ErrorsAreTriedAgain) {
  int refusals = 3;
  client.SetBefore([&refusals](const HookedClient::Call& call) {
    return call.verb == "list" && refusals-- > 0 ? absl::UnavailableError("503") : absl::OkStatus();
  });
  Create("a");
  Start();
  EXPECT_THAT(journal.WaitFor(1), ElementsAre("+a"));
  client.EndWatches(absl::OkStatus());
  Create("b");
  EXPECT_THAT(journal.WaitFor(2), ElementsAre("+a", "+b"));
}

TEST_F(InformerTest, StopEndsARunningWatch) {
  Start();
  ASSERT_TRUE(informer->WaitForSync());
  Create("a");
  journal.WaitFor(1);  // by the watch, which is open now
  const auto stopped = std::async(std::launch::async, [this] { informer->Stop(); });
  EXPECT_EQ(stopped.wait_for(testing::Slowed(std::chrono::seconds(20))), std::future_status::ready);
  client.EndWatches(absl::OkStatus());  // otherwise this test would not end either
}

TEST_F(InformerTest, StopEndsAWaitForSync) {
  client.SetBefore([](const HookedClient::Call&) { return absl::UnavailableError("down"); });
  Start();
  std::jthread stopper([this] { informer->Stop(); });
  EXPECT_FALSE(informer->WaitForSync());
}

struct NamespacesTest : InformerTest {
  void SetUp() override {
    informer.emplace(client, kPodKind, std::vector<std::string>{"a", "b"},
                     ReflectorOptions{.backoff = {.initial = std::chrono::microseconds(100),
                                                  .limit = std::chrono::milliseconds(1)}},
                     WholeObject);
    informer->SetHandler(journal.Handler());
    informer->SetSyncHandler([this] { ++syncs; });
  }
  void TearDown() override { informer->Stop(); }
  void Make(const std::string& space, const std::string& name) {
    client.Add(kPodKind, {{"metadata", {{"name", name}, {"namespace", space}}}});
  }
  // Makes lists and watches of the namespace fail from now on.
  void Forbid(const std::string& space) {
    client.SetBefore([space](const HookedClient::Call& call) {
      return call.namespace_name == space ? absl::PermissionDeniedError("no right in " + space)
                                          : absl::OkStatus();
    });
  }
  std::atomic<int> syncs = 0;
};

TEST_F(NamespacesTest, AllGoIntoOneStoreAndOthersAreNotSeen) {
  Make("a", "a1");
  Make("b", "b1");
  Make("c", "c1");
  informer->Start();
  ASSERT_TRUE(informer->WaitForSync());
  Make("c", "c2");
  Make("b", "b2");
  EXPECT_THAT(journal.WaitFor(3), UnorderedElementsAre("+a1", "+b1", "+b2"));
  EXPECT_EQ(informer->size(), 3U);
}

TEST_F(NamespacesTest, ANewListOfOneLeavesTheObjectsOfOthers) {
  Make("a", "a1");
  Make("b", "b1");
  informer->Start();
  journal.WaitFor(2);
  // From now on only `a` can be listed.
  Forbid("b");
  client.ForgetHistory();
  Make("a", "a2");
  journal.WaitFor(3);
  EXPECT_NE(informer->store().Get({"b", "b1"}), nullptr);
  EXPECT_THAT(journal.WaitFor(3), UnorderedElementsAre("+a1", "+b1", "+a2"));
}

TEST_F(NamespacesTest, OneThatIsForbiddenIsNamedAndKeepsNoOtherWaiting) {
  Make("a", "a1");
  Make("b", "b1");
  Forbid("b");
  informer->Start();
  EXPECT_THAT(journal.WaitFor(1), ElementsAre("+a1"));
  Make("a", "a2");
  journal.WaitFor(2);
  EXPECT_TRUE(informer->HasSynced("a"));
  EXPECT_FALSE(informer->HasSynced("b"));
  EXPECT_FALSE(informer->HasSynced());
  EXPECT_EQ(informer->store().resource_version("b"), "") << "a's watch says nothing about b";
  const std::vector<FeedState> feeds = informer->Feeds();
  ASSERT_EQ(feeds.size(), 2U);
  EXPECT_TRUE(feeds[0].synced);
  EXPECT_TRUE(feeds[0].last_error.ok()) << feeds[0].last_error;
  EXPECT_EQ(feeds[1].namespace_name, "b");
  EXPECT_FALSE(feeds[1].synced);
  client.SetBefore({});
  EXPECT_TRUE(informer->WaitForSync());
  EXPECT_THAT(journal.WaitFor(3), ElementsAre("+a1", "+a2", "+b1"));
}

TEST_F(NamespacesTest, EachFirstListIsReportedOnce) {
  informer->Start();
  ASSERT_TRUE(informer->WaitForSync());
  client.ForgetHistory();
  Make("a", "a1");
  Make("b", "b1");
  journal.WaitFor(2);
  informer->Stop();
  EXPECT_EQ(syncs, 2);
}

// Answers only lists and watches, as a test says.
class ReadingClient : public Client {
 public:
  absl::StatusOr<Object> Get(const Kind&, const Key&) override { return absl::NotFoundError(""); }
  absl::StatusOr<Object> Create(const Kind&, const Object&) override { return Unused(); }
  absl::StatusOr<Object> Update(const Kind&, const Object&) override { return Unused(); }
  absl::StatusOr<Object> UpdateStatus(const Kind&, const Object&) override { return Unused(); }
  absl::Status Delete(const Kind&, const Key&, const Preconditions&) override { return Unused(); }
  absl::Status ForceDelete(const Kind&, const Key&, const Preconditions&) override {
    return Unused();
  }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("not used"); }
};

// Its watches end only once all of them have been asked to stop.
class UnitedClient final : public ReadingClient {
 public:
  explicit UnitedClient(int watches) : watches_(watches) {}
  void WaitForWatches() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ == watches_; });
  }
  bool ended_together() {
    const std::lock_guard lock(mutex_);
    return ended_ == watches_;
  }

  absl::StatusOr<Page> List(const Kind&, const ListOptions&) override { return Page{{}, "10", ""}; }
  absl::Status Watch(const Kind&, const WatchOptions&, std::stop_token stop,
                     const std::function<void(WatchEvent)>&) override {
    Add(begun_);
    const std::stop_callback on_stop(stop, [this] { Add(told_); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return told_ > 0; });
    if (changed_.wait_for(lock, kPatience, [&] { return told_ == watches_; })) ++ended_;
    return absl::OkStatus();
  }

 private:
  static constexpr std::chrono::seconds kPatience{60};
  void Add(int& count) {
    const std::lock_guard lock(mutex_);
    ++count;
    changed_.notify_all();
  }
  const int watches_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int begun_ = 0, told_ = 0, ended_ = 0;  // guarded by mutex_
};

TEST(InformerStopTest, AllNamespacesAreStoppedBeforeOneIsWaitedFor) {
  UnitedClient client(/*watches=*/2);
  Informer<Object> informer(client, kPodKind, {"a", "b"}, {}, WholeObject);
  informer.Start();
  client.WaitForWatches();
  informer.Stop();
  EXPECT_TRUE(client.ended_together());
}

Object PodAt(const std::string& name, const std::string& version) {
  Object pod = Pod(name);
  pod["metadata"]["resourceVersion"] = version;
  return pod;
}

// A server that has dropped a list's version when the second page is read, and continues the list
// at its present one: see Client::List.
class ForgetfulClient final : public ReadingClient {
 public:
  absl::StatusOr<Page> List(const Kind&, const ListOptions& options) override {
    if (options.continue_token.empty()) return Page{{PodAt("a", "1"), PodAt("b", "2")}, "3", "c"};
    return Page{{PodAt("c", "6")}, "7", ""};
  }
  absl::Status Watch(const Kind&, const WatchOptions& options, std::stop_token,
                     const std::function<void(WatchEvent)>& on_event) override {
    if (options.resource_version != "3") return absl::OkStatus();
    on_event({WatchEvent::Type::kModified, PodAt("c", "4")});
    on_event({WatchEvent::Type::kModified, PodAt("a", "5")});
    on_event({WatchEvent::Type::kModified, PodAt("c", "6")});
    on_event({WatchEvent::Type::kModified, PodAt("b", "7")});
    return absl::OkStatus();
  }
};

TEST(InformerOrderTest, WhatChangesWhileAListIsReadIsReportedOnce) {
  ForgetfulClient client;
  ChangeLog journal;
  Informer<Object> informer(client, kPodKind, {}, WholeObject);
  informer.SetHandler(journal.Handler());
  informer.Start();
  EXPECT_THAT(journal.WaitFor(5), ElementsAre("+a", "+b", "+c", "~a", "~b"));
}

// Its watches fail so many times. Then one brings an event, after which the members may be read.
class FailingClient final : public ReadingClient {
 public:
  FailingClient(std::size_t failures, absl::Status end)
      : failures_(failures), end_(std::move(end)) {}
  std::vector<SteadyTime> begun;
  std::vector<Duration> timeouts;

  absl::StatusOr<Page> List(const Kind&, const ListOptions&) override { return Page{{}, "10", ""}; }
  absl::Status Watch(const Kind&, const WatchOptions& options, std::stop_token,
                     const std::function<void(WatchEvent)>& on_event) override {
    if (begun.size() > failures_) return absl::OkStatus();  // the test may be reading the members
    begun.push_back(std::chrono::steady_clock::now());
    timeouts.push_back(options.timeout);
    if (begun.size() <= failures_) return end_;
    on_event({WatchEvent::Type::kAdded, PodAt("a", "11")});
    return absl::OkStatus();
  }

 private:
  const std::size_t failures_;
  const absl::Status end_;
};

const absl::Status kCut = MarkBegun(absl::UnavailableError("the connection was closed"));
const absl::Status kRefused = absl::ResourceExhaustedError("429");

// Watches until there is an event.
void WatchUntilAnEvent(Client& client, const ReflectorOptions& options) {
  ChangeLog journal;
  Informer<Object> informer(client, kPodKind, options, WholeObject);
  informer.SetHandler(journal.Handler());
  informer.Start();
  EXPECT_THAT(journal.WaitFor(1), ElementsAre("+a"));
}

// 10 us, 300 us, 9 ms, 270 ms, 8 s, 4 min
constexpr BackoffPolicy kSteep{
    .initial = std::chrono::microseconds(10), .limit = std::chrono::hours(1), .factor = 30};

// As behind a load balancer that closes idle connections.
TEST(InformerWatchTest, CutsOfWatchesThatLastedAreNoConsecutiveFailures) {
  FailingClient client(20, kCut);
  WatchUntilAnEvent(client, {.backoff = kSteep, .brief_watch = Duration::zero()});
}

TEST(InformerWatchTest, WatchesThatBreakAtOnceAreTriedLessAndLessOften) {
  FailingClient client(4, kCut);
  WatchUntilAnEvent(client, {.backoff = kSteep, .brief_watch = std::chrono::hours(1)});
  EXPECT_GE(client.begun[3] - client.begun[0], std::chrono::milliseconds(9));
}

// However long the server takes to refuse.
TEST(InformerWatchTest, WatchesThatNeverBeganAreTriedLessAndLessOften) {
  FailingClient client(4, kRefused);
  WatchUntilAnEvent(client, {.backoff = kSteep, .brief_watch = Duration::zero()});
  EXPECT_GE(client.begun[3] - client.begun[0], std::chrono::milliseconds(9));
  EXPECT_THAT(client.timeouts, ::testing::Each(Duration::zero()));
}

// Its first watch is idle for 20 ms, perhaps after an event, and is cut off. The second one ends in
// order.
class IdleClient final : public ReadingClient {
 public:
  explicit IdleClient(Duration before_the_event = Duration::zero()) : busy_(before_the_event) {}
  std::vector<Duration> timeouts;  // used by the informer's thread until there is an event

  absl::StatusOr<Page> List(const Kind&, const ListOptions&) override { return Page{{}, "10", ""}; }
  absl::Status Watch(const Kind&, const WatchOptions& options, std::stop_token,
                     const std::function<void(WatchEvent)>& on_event) override {
    timeouts.push_back(options.timeout);
    if (timeouts.size() == 1) {
      if (busy_ > Duration::zero()) {
        std::this_thread::sleep_for(busy_);
        on_event({WatchEvent::Type::kBookmark, PodAt("", "11")});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the time of the watch
      return kCut;
    }
    if (timeouts.size() == 3) on_event({WatchEvent::Type::kAdded, PodAt("a", "12")});
    return absl::OkStatus();
  }

  // What the first three watches asked for.
  std::vector<Duration> Asked(Duration watch_timeout) {
    WatchUntilAnEvent(
        *this, {.watch_timeout = watch_timeout, .brief_watch = std::chrono::milliseconds(1)});
    timeouts.resize(3);
    return timeouts;
  }

 private:
  const Duration busy_;
};

// A cut shows nothing of the server, its own end of a watch does.
TEST(InformerWatchTest, AfterACutTheNextWatchIsToEndInOrder) {
  const std::vector<Duration> asked = IdleClient().Asked(Duration::zero());
  EXPECT_EQ(asked[0], Duration::zero());
  EXPECT_GE(asked[1], std::chrono::milliseconds(10));
  EXPECT_EQ(asked[2], 2 * asked[1]);
}

TEST(InformerWatchTest, OnlyTheTimeSinceTheLastEventWasTooLong) {
  const Duration busy = testing::Slowed(std::chrono::seconds(2));
  EXPECT_LT(IdleClient(busy).Asked(Duration::zero())[1], busy / 2);
}

// A watch that outlives the time that it asked for is followed by one of half of that time.
TEST(InformerWatchTest, NoWatchAsksForMoreThanItsKindMay) {
  constexpr std::chrono::milliseconds kMost(16);
  EXPECT_THAT(IdleClient().Asked(kMost), ElementsAre(kMost, kMost / 2, kMost));
  EXPECT_THAT(IdleClient().Asked(kMost / 8), ElementsAre(kMost / 8, kMost / 16, kMost / 8));
}

// Its watches send an event that is older than what was seen before.
class BackwardsClient final : public ReadingClient {
 public:
  absl::StatusOr<Page> List(const Kind&, const ListOptions&) override {
    return Page{{PodAt("a", "10")}, "10", ""};
  }
  absl::Status Watch(const Kind&, const WatchOptions&, std::stop_token,
                     const std::function<void(WatchEvent)>& on_event) override {
    if (sent_) return absl::OkStatus();
    sent_ = true;
    on_event({WatchEvent::Type::kDeleted, PodAt("a", "12")});
    on_event({WatchEvent::Type::kAdded, PodAt("a", "9")});
    on_event({WatchEvent::Type::kAdded, PodAt("b", "13")});
    return absl::OkStatus();
  }

 private:
  bool sent_ = false;  // used by the informer's thread only
};

TEST(InformerOrderTest, AnEventFromThePastChangesNothing) {
  BackwardsClient client;
  ChangeLog journal;
  Informer<Object> informer(client, kPodKind, {}, WholeObject);
  informer.SetHandler(journal.Handler());
  informer.Start();
  EXPECT_THAT(journal.WaitFor(3), ElementsAre("+a", "-a", "+b"));
}

// A server of 3000 small objects, which tells how many would fit on a page. Something changes
// whenever a page is read, and it remembers no more than 100 changes.
class BusyClient final : public ReadingClient {
 public:
  absl::StatusOr<Page> List(const Kind&, const ListOptions& options) override {
    int next = options.continue_token.empty() ? 0 : std::stoi(options.continue_token);
    if (next == 0) first_limits.push_back(options.limit);
    Page page;
    page.resource_version = std::to_string(version_);
    for (int n = 0; n < options.limit && next < kObjects; ++n, ++next) {
      page.items.push_back(PodAt("pod-" + std::to_string(next), "1"));
    }
    if (next < kObjects) page.continue_token = std::to_string(next);
    page.next_limit = 2 * options.limit;
    largest = std::max(largest.load(), options.limit);
    ++version_;
    return page;
  }
  absl::Status Watch(const Kind&, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override {
    if (forgets.exchange(false)) return absl::OutOfRangeError("too old resource version");
    if (std::stoi(options.resource_version) < version_ - 100) {
      refused = true;
      return absl::OutOfRangeError("too old resource version");
    }
    on_event({WatchEvent::Type::kAdded, PodAt("new", std::to_string(++version_))});
    while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return absl::OkStatus();
  }
  std::atomic<bool> refused{false};
  std::atomic<bool> forgets{false};  // the next watch finds its version forgotten
  std::atomic<int> largest{0};
  std::vector<int> first_limits;  // of first pages; used by the informer's thread only

 private:
  static constexpr int kObjects = 3000;
  int version_ = 10;  // used by the informer's thread only
};

TEST(InformerOrderTest, AListOfManySmallObjectsEndsWhileItsVersionIsStillRemembered) {
  BusyClient client;
  ChangeLog journal;
  Informer<Object> informer(client, kPodKind, {}, WholeObject);
  informer.SetHandler(journal.Handler());
  informer.Start();
  ASSERT_TRUE(informer.WaitForSync());
  while (!client.refused && informer.size() <= 3000) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_FALSE(client.refused) << "the watch never begins";
  EXPECT_EQ(journal.WaitFor(3001).back(), "+new");
  EXPECT_EQ(client.largest, 64);  // a page may be sent in one piece, see ReflectorOptions
}

// Nobody knows how large the objects are by then, and a large page keeps all other lists waiting.
TEST(InformerOrderTest, AListThatBeginsAgainBeginsWithASmallPage) {
  BusyClient client;
  client.forgets = true;
  ChangeLog journal;
  {
    Informer<Object> informer(client, kPodKind, {}, WholeObject);
    informer.SetHandler(journal.Handler());
    informer.Start();
    EXPECT_EQ(journal.WaitFor(3001).back(), "+new");
  }
  EXPECT_EQ(client.first_limits, std::vector<int>({8, 8}));
}

}  // namespace
}  // namespace lockstep::kube
