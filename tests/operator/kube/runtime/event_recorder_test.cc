#include "operator/kube/runtime/event_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"

namespace lockstep::kube {
namespace {

using testing::FakeClock;
using testing::HookedClient;

struct EventRecorderTest : ::testing::Test {
  void Record(const std::string& note) {
    recorder.Record(kPodKind, pod, EventType::kWarning, "Failed", "Start", note);
    clock.Advance(std::chrono::microseconds(1));  // names contain the time
  }
  std::vector<Object> Events() { return client.Objects(kEventKind); }

  FakeClock clock;
  HookedClient client{clock};
  EventRecorder recorder{client, clock, "example.com/test", "pod-1"};
  const Identity pod =
      IdentityOf({{"metadata", {{"name", "a"}, {"namespace", "n"}, {"uid", "u"}}}});
};

TEST_F(EventRecorderTest, AnEventHasWhatTheApiServerAsksFor) {
  Record("it broke");
  ASSERT_EQ(Events().size(), 1U);
  const Object event = Events().front();
  EXPECT_EQ(event.at("regarding").at("uid"), "u");
  EXPECT_EQ(event.at("regarding").at("kind"), "Pod");
  EXPECT_EQ(event.at("reportingController"), "example.com/test");
  EXPECT_EQ(event.at("reportingInstance"), "pod-1");
  EXPECT_EQ(event.at("eventTime"), "2023-11-14T23:13:20.000000Z");
  EXPECT_EQ(event.at("type"), "Warning");
  EXPECT_EQ(event.at("action"), "Start");
  EXPECT_EQ(Namespace(event), "n");
}

TEST_F(EventRecorderTest, TheSameEventAgainCountsUpASeries) {
  for (int i = 0; i < 3; ++i) Record("it broke");
  ASSERT_EQ(Events().size(), 1U);
  EXPECT_EQ(Events().front().at("series").at("count"), 3);
  EXPECT_EQ(client.Count("create", "Event"), 1);
}

TEST_F(EventRecorderTest, AnotherNoteOrALongPauseMakesANewEvent) {
  Record("it broke");
  Record("it broke again");
  clock.Advance(std::chrono::minutes(11));
  Record("it broke");
  EXPECT_EQ(Events().size(), 3U);
}

TEST_F(EventRecorderTest, AnEventThatTheServerHasDroppedIsRecreated) {
  Record("it broke");
  client.Remove(kEventKind, KeyOf(Events().front()));
  Record("it broke");
  EXPECT_EQ(client.Count("create", "Event"), 2);
  EXPECT_EQ(Events().size(), 1U);
}

TEST_F(EventRecorderTest, ALongNoteIsCutBetweenCharacters) {
  std::string note;
  while (note.size() < 2000) note += "€";
  Record(note);
  const std::string kept = Events().front().at("note");
  EXPECT_EQ(kept.size(), 1023U);
  EXPECT_TRUE(note.starts_with(kept));
}

// A tenant decides how long the message about a faulty object is.
TEST_F(EventRecorderTest, OfALongNoteOnlyADigestIsKept) {
  constexpr int kNotes = 400;
  constexpr std::size_t kLong = 16'384;
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < kNotes; ++i) Record(std::to_string(i) + std::string(kLong, 'x'));
  const std::size_t after = mallinfo2().uordblks;
  // HookedClient keeps the events, with truncated notes, which accounts for half of this.
  EXPECT_LT(after - std::min(before, after), kNotes * kLong);
  Record("7" + std::string(kLong, 'x'));
  EXPECT_EQ(client.Count("create", "Event"), kNotes);
}

TEST_F(EventRecorderTest, ManyEventsOfOneNamespaceLeaveTheLatestKnown) {
  constexpr int kMany = 600;
  for (int i = 0; i < kMany; ++i) Record(std::to_string(i));
  Record(std::to_string(kMany - 1));
  EXPECT_EQ(client.Count("create", "Event"), kMany);
  Record("0");
  EXPECT_EQ(client.Count("create", "Event"), kMany + 1) << "a new Event: the first is not known";
}

TEST_F(EventRecorderTest, OfAnObjectThatIsGoneNothingIsKnown) {
  Record("it broke");
  recorder.Forget("another");
  Record("it broke");
  EXPECT_EQ(client.Count("create", "Event"), 1);
  recorder.Forget(pod.uid);
  Record("it broke");
  EXPECT_EQ(client.Count("create", "Event"), 2);
}

TEST_F(EventRecorderTest, AFailureStaysInside) {
  client.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "create" ? absl::PermissionDeniedError("no") : absl::OkStatus();
  });
  Record("it broke");
  EXPECT_TRUE(Events().empty());
}

}  // namespace
}  // namespace lockstep::kube
