#include "operator/local/pod_runner.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "operator/local/logs.h"
#include "tests/operator/local/fake_process_host.h"
#include "tests/support/fake_clock.h"
#include "tests/support/planted_link.h"
#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PodRunnerTest : public ::testing::Test {
 protected:
  ContainerPlan Container(const std::string& name) {
    ProcessSpec process;
    process.argv = {name};
    ContainerPlan container{.name = name,
                            .image = "none",
                            .process = process,
                            .init = false,
                            .sidecar = false,
                            .message_path = folder_.At(name + ".message"),
                            .logs_as_message = false};
    return container;
  }
  ContainerPlan Init(const std::string& name) {
    ContainerPlan container = Container(name);
    container.init = true;
    return container;
  }
  PodRunner Pod(std::vector<ContainerPlan> containers, const std::string& policy = "Never") {
    PodPlan plan{.name = "pod",
                 .log_folder = folder_.path(),
                 .ip = "127.0.0.9",
                 .restart_policy = policy,
                 .grace = seconds(30),
                 .containers = std::move(containers)};
    return PodRunner(std::move(plan), host_, clock_);
  }

  TempDirectory folder_;
  lockstep::testing::FakeClock clock_;
  FakeProcessHost host_;
};

TEST_F(PodRunnerTest, RunsItsContainersAndSucceeds) {
  PodRunner pod = Pod({Container("a"), Container("b")});
  EXPECT_EQ(pod.Phase(), "Pending");
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("a", "b"));
  EXPECT_EQ(pod.Phase(), "Running");
  pod.OnExit(host_.Exit("a", 0));
  EXPECT_EQ(pod.Phase(), "Running");
  pod.OnExit(host_.Exit("b", 0));
  EXPECT_EQ(pod.Phase(), "Succeeded");
  EXPECT_FALSE(pod.HasProcesses());
  EXPECT_THAT(host_.cleaned, ElementsAre("a", "b"));
}

TEST_F(PodRunnerTest, ReportsExitCodesAndSignals) {
  PodRunner pod = Pod({Container("a"), Container("b")});
  pod.Advance();
  pod.OnExit(host_.Exit("a", 3));
  pod.OnExit(host_.Exit("b", 0, SIGKILL));
  EXPECT_EQ(pod.Phase(), "Failed");
  const kube::Object status = pod.Status();
  const kube::Object& a = status["containerStatuses"][0]["state"]["terminated"];
  const kube::Object& b = status["containerStatuses"][1]["state"]["terminated"];
  EXPECT_EQ(a["exitCode"], 3);
  EXPECT_EQ(a["reason"], "Error");
  EXPECT_EQ(b["exitCode"], 137);
  EXPECT_EQ(b["signal"], SIGKILL);
}

TEST_F(PodRunnerTest, InitContainersRunOneAfterTheOtherFirst) {
  PodRunner pod = Pod({Init("first"), Init("second"), Container("main")});
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("first"));
  pod.OnExit(host_.Exit("first", 0));
  pod.Advance();
  pod.OnExit(host_.Exit("second", 0));
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("first", "second", "main"));
}

TEST_F(PodRunnerTest, AFailedInitContainerFailsThePod) {
  PodRunner pod = Pod({Init("first"), Container("main")});
  pod.Advance();
  pod.OnExit(host_.Exit("first", 1));
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("first"));
  EXPECT_EQ(pod.Phase(), "Failed");
}

TEST_F(PodRunnerTest, OnFailureRestartsWithGrowingBackoff) {
  PodRunner pod = Pod({Container("a")}, "OnFailure");
  pod.Advance();
  pod.OnExit(host_.Exit("a", 1));
  pod.Advance();  // the first restart has no delay
  pod.OnExit(host_.Exit("a", 1));
  pod.Advance();
  EXPECT_EQ(host_.started.size(), 2U);
  ASSERT_TRUE(pod.NextDeadline().has_value());
  EXPECT_EQ(*pod.NextDeadline(), clock_.SteadyNow() + seconds(1));
  clock_.Advance(seconds(1));
  pod.Advance();
  EXPECT_EQ(host_.started.size(), 3U);
  pod.OnExit(host_.Exit("a", 0));
  EXPECT_EQ(pod.Phase(), "Succeeded");
  EXPECT_EQ(pod.Status()["containerStatuses"][0]["restartCount"], 2);
}

TEST_F(PodRunnerTest, ASidecarInBackoffHoldsUpNoRestart) {
  ContainerPlan sidecar = Init("sidecar");
  sidecar.sidecar = true;
  PodRunner pod = Pod({sidecar, Container("main")}, "OnFailure");
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("sidecar", "main"));
  pod.OnExit(host_.Exit("sidecar", 1));
  pod.Advance();
  pod.OnExit(host_.Exit("sidecar", 1));
  pod.OnExit(host_.Exit("main", 1));
  pod.Advance();
  EXPECT_THAT(host_.started, ElementsAre("sidecar", "main", "sidecar", "main"));
  EXPECT_EQ(pod.NextDeadline(), clock_.SteadyNow() + seconds(1)) << "nothing else is due";
}

TEST_F(PodRunnerTest, TerminateAsksThenKillsAfterTheGracePeriod) {
  PodRunner pod = Pod({Container("a")}, "Always");
  pod.Advance();
  pod.Terminate(seconds(5));
  EXPECT_THAT(host_.signals, ElementsAre(Pair("a", SIGTERM)));
  EXPECT_EQ(*pod.NextDeadline(), clock_.SteadyNow() + seconds(5));
  clock_.Advance(seconds(5));
  pod.Advance();
  EXPECT_THAT(host_.signals, ElementsAre(Pair("a", SIGTERM), Pair("a+", SIGKILL)));
  pod.OnExit(host_.Exit("a", 0, SIGKILL));
  EXPECT_FALSE(pod.HasProcesses());
  pod.Advance();
  EXPECT_EQ(host_.started.size(), 1U) << "a stopped pod was started again";
}

TEST_F(PodRunnerTest, WhatAStoppedShellLeavesKeepsTheGracePeriod) {
  PodRunner pod = Pod({Container("a")});
  pod.Advance();
  pod.Terminate(seconds(5));
  host_.groups_with_leftovers = {"a"};
  pod.OnExit(host_.Exit("a", 0, SIGTERM));
  EXPECT_TRUE(pod.HasProcesses());
  EXPECT_THAT(host_.cleaned, IsEmpty());
  host_.groups_with_leftovers.clear();
  pod.Advance();
  EXPECT_FALSE(pod.HasProcesses());
}

TEST_F(PodRunnerTest, ACommandThatIsNotThereFailsByName) {
  PodRunner pod = Pod({Container("absent")});
  pod.Advance();
  EXPECT_EQ(pod.Phase(), "Failed");
  const kube::Object state = pod.Status()["containerStatuses"][0]["state"]["terminated"];
  EXPECT_EQ(state["exitCode"], 127);
  EXPECT_EQ(state["message"], "command not found: absent");
}

TEST_F(PodRunnerTest, TheTerminationMessageIsTakenFromTheContainersFile) {
  ContainerPlan container = Container("a");
  container.logs_as_message = true;
  WriteTextFile(container.message_path, "of an earlier run");
  PodRunner pod = Pod({container});
  pod.Advance();
  EXPECT_FALSE(std::filesystem::exists(container.message_path));
  WriteTextFile(container.message_path, R"({"step":7})");
  pod.OnExit(host_.Exit("a", 0));
  const kube::Object state = pod.Status()["containerStatuses"][0]["state"]["terminated"];
  EXPECT_EQ(state["message"], R"({"step":7})");
  EXPECT_FALSE(std::filesystem::exists(container.message_path));
}

TEST_F(PodRunnerTest, AFailureWithoutAMessageHasTheLastLinesOfItsLog) {
  ContainerPlan container = Container("a");
  container.logs_as_message = true;
  PodRunner pod = Pod({container});
  pod.Advance();
  WriteTextFile(folder_.At("pod/0.log"), "one\nthe reason\n");
  pod.OnExit(host_.Exit("a", 1));
  EXPECT_EQ(pod.Status()["containerStatuses"][0]["state"]["terminated"]["message"],
            "one\nthe reason\n");
}

TEST(LogsTest, EveryStartHasItsOwnFile) {
  const TempDirectory folder;
  EXPECT_EQ(NextLogPath(folder.path(), "p", ""), folder.At("p/0.log"));
  WriteTextFile(folder.At("p/0.log"), "");
  WriteTextFile(folder.At("p/9.log"), "");
  EXPECT_EQ(NextLogPath(folder.path(), "p", ""), folder.At("p/10.log"));
  EXPECT_EQ(NextLogPath(folder.path(), "p", "side"), folder.At("p/0-side.log"));
}

TEST(LogsTest, TheEndOfALongMessageIsReadAndMadeUtf8) {
  const TempDirectory folder;
  WriteTextFile(folder.At("m"), "begin" + std::string(5000, 'x') + "end");
  EXPECT_EQ(TakeMessage(folder.At("m")), std::string(4093, 'x') + "end");
  WriteTextFile(folder.At("m"), "a\xff");
  EXPECT_EQ(TakeMessage(folder.At("m")), "a\xEF\xBF\xBD");
  EXPECT_EQ(TakeMessage(folder.At("m")), "");
}

// Others may be able to write to the work directory.
TEST(LogsTest, NothingIsReadThroughALink) {
  const TempDirectory folder;
  WriteTextFile(folder.At("private"), "secret\n");
  for (const lockstep::testing::Link link : lockstep::testing::kLinks) {
    for (const char* name : {"m", "0.log"}) {
      lockstep::testing::PlantLink(folder.At(name), folder.At("private"), link);
    }
    EXPECT_EQ(TakeMessage(folder.At("m")), "");
    EXPECT_EQ(LastLines(folder.At("0.log")), "");
  }
}

TEST(LogsTest, NobodyIsWaitedFor) {
  const TempDirectory folder;
  ASSERT_EQ(mkfifo(folder.At("pipe").c_str(), 0600), 0);
  EXPECT_EQ(LastLines(folder.At("pipe")), "");
  EXPECT_EQ(TakeMessage(folder.At("pipe")), "");
}

TEST(LogsTest, OnlyWholeLinesAreLast) {
  const TempDirectory folder;
  WriteTextFile(folder.At("log"), "one\ntwo\nthree\n");
  EXPECT_EQ(LastLines(folder.At("log"), 100), "one\ntwo\nthree\n");
  EXPECT_EQ(LastLines(folder.At("log"), 10), "two\nthree\n");
  EXPECT_EQ(LastLines(folder.At("log"), 9), "three\n");
}

}  // namespace
}  // namespace lockstep::local
