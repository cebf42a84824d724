#include "operator/kube/instrumented_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"

namespace lockstep::kube {
namespace {

using ::testing::ElementsAre;

class Journal final : public ClientObserver {
 public:
  void OnCall(Verb verb, const Kind& kind, const std::string& space, const absl::Status& result,
              Duration) override {
    lines.push_back(std::string(VerbName(verb)) + " " + kind.plural + " in '" + space + "' " +
                    absl::StatusCodeToString(result.code()));
  }
  void OnWatchStart(const Kind& kind, const std::string& space) override {
    lines.push_back("start " + kind.plural + " in " + space);
  }
  void OnWatchEvent(const Kind& kind, const std::string& space) override {
    lines.push_back("event " + kind.plural + " in " + space);
  }

  std::vector<std::string> lines;
};

struct InstrumentedClientTest : ::testing::Test {
  testing::FakeClock clock;
  testing::HookedClient server;
  Journal journal;
  InstrumentedClient client{server, clock, {&journal}};
  const Object pod = {
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"namespace", "n"}, {"name", "a"}}}};
};

TEST_F(InstrumentedClientTest, EveryCallIsReportedWithItsResultAndPassedOn) {
  const auto made = client.Create(kPodKind, pod);
  ASSERT_TRUE(made.ok());
  EXPECT_TRUE(absl::IsAlreadyExists(client.Create(kPodKind, pod).status()));
  EXPECT_EQ(Name(*client.Get(kPodKind, {"n", "a"})), "a");
  EXPECT_EQ(client.List(kPodKind, {})->items.size(), 1u);
  const auto changed = client.Update(kPodKind, *made);
  EXPECT_TRUE(client.UpdateStatus(kPodKind, *changed).ok());
  EXPECT_TRUE(client.Delete(kPodKind, {"n", "a"}, {}).ok());
  EXPECT_THAT(journal.lines,
              ElementsAre("create pods in 'n' OK", "create pods in 'n' ALREADY_EXISTS",
                          "get pods in 'n' OK", "list pods in '' OK", "update pods in 'n' OK",
                          "update-status pods in 'n' OK", "delete pods in 'n' OK"));
}

TEST_F(InstrumentedClientTest, AWatchThatIsStoppedEndsAsCancelledForObserversOnly) {
  ASSERT_TRUE(client.Create(kPodKind, pod).ok());
  journal.lines.clear();
  std::stop_source source;
  int seen = 0;
  const absl::Status end = client.Watch(kPodKind, {.namespace_name = "n", .resource_version = "0"},
                                        source.get_token(), [&](const WatchEvent&) {
                                          ++seen;
                                          source.request_stop();
                                        });
  EXPECT_TRUE(end.ok());
  EXPECT_EQ(seen, 1);
  EXPECT_THAT(journal.lines,
              ElementsAre("start pods in n", "event pods in n", "watch pods in 'n' CANCELLED"));
}

}  // namespace
}  // namespace lockstep::kube
