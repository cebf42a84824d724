#include "operator/cli/cluster/pod_state.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep::cli {
namespace {

using kube::Object;

// A pod whose main container has this state.
Object Pod(const std::string& phase, const Object& state, const Object& more = Object::object()) {
  Object status = {
      {"phase", phase},
      {"containerStatuses",
       {{{"name", "sidecar"}, {"state", {{"running", Object::object()}}}},
        {{"name", "trainer"}, {"restartCount", 3}, {"ready", true}, {"state", state}}}}};
  status.update(more);
  return {{"metadata", {{"name", "p"}}},
          {"spec", {{"containers", {{{"name", "sidecar"}}, {{"name", "trainer"}}}}}},
          {"status", status}};
}

Object Terminated(int code, const std::string& reason) {
  return {{"terminated", {{"exitCode", code}, {"reason", reason}}}};
}
Object Waiting(const std::string& reason, const std::string& message) {
  return {{"waiting", {{"reason", reason}, {"message", message}}}};
}

TEST(PodStateTest, TheMainContainerDecides) {
  EXPECT_EQ(PodState(Pod("Running", {{"running", Object::object()}})), "Running");
  EXPECT_EQ(PodState(Pod("Succeeded", Terminated(0, "Completed"))), "Completed");
  EXPECT_EQ(PodState(Pod("Failed", Terminated(137, "OOMKilled"))),
            "Failed: OOMKilled, exit code 137");
  EXPECT_EQ(PodState(Pod("Failed", Terminated(1, "Error"))), "Failed: exit code 1");
  EXPECT_EQ(PodState(Pod("Running", Waiting("CrashLoopBackOff", "back-off 40s"))),
            "CrashLoopBackOff: back-off 40s");
  EXPECT_EQ(PodState(Pod("Pending", Waiting("ImagePullBackOff", "no such image"))),
            "ImagePullBackOff: no such image");
  EXPECT_EQ(KubeletRestarts(Pod("Running", Object::object())), 3);
}

TEST(PodStateTest, APodThatIsNotReadySaysSo) {
  Object pod = Pod("Running", {{"running", Object::object()}});
  pod["status"]["containerStatuses"][1]["ready"] = false;
  EXPECT_EQ(PodState(pod), "Running, not ready");
}

TEST(PodStateTest, APodsOwnReasonComesBeforeThatOfItsContainers) {
  const Object reason = {{"reason", "Evicted"}, {"message", "the node was low on memory"}};
  EXPECT_EQ(PodState(Pod("Failed", Terminated(137, "Error"), reason)),
            "Failed: Evicted: the node was low on memory");
}

TEST(PodStateTest, APendingPodSaysWhatKeepsIt) {
  const Object unscheduled = {{"conditions",
                               {{{"type", "PodScheduled"},
                                 {"status", "False"},
                                 {"reason", "Unschedulable"},
                                 {"message", "0/3 nodes are available"}}}}};
  EXPECT_EQ(PodState(Pod("Pending", Object::object(), unscheduled)),
            "Unschedulable: 0/3 nodes are available");
  const auto init = [](const Object& state) {
    return Object{{"initContainerStatuses", {{{"name", "fetch"}, {"state", state}}}}};
  };
  const Object waits = Waiting("PodInitializing", "");
  EXPECT_EQ(PodState(Pod("Pending", waits, init(Terminated(2, "Error")))),
            "init container fetch: Failed: exit code 2");
  EXPECT_EQ(PodState(Pod("Pending", waits, init(Waiting("ImagePullBackOff", "no")))),
            "init container fetch: ImagePullBackOff: no");
  EXPECT_EQ(PodState(Pod("Pending", waits, init(Terminated(0, "Completed")))), "PodInitializing");
  EXPECT_EQ(PodState(Object{{"metadata", {{"name", "p"}}}}), "Pending");
}

TEST(PodStateTest, APodThatIsBeingDeletedTerminates) {
  Object pod = Pod("Running", {{"running", Object::object()}});
  pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ(PodState(pod), "Terminating");
}

TEST(PodStateTest, SaysWhichPodsHaveFailed) {
  EXPECT_TRUE(IsInTrouble(Pod("Failed", Object::object())));
  EXPECT_TRUE(IsInTrouble(Pod("Running", Terminated(1, "Error"))));
  EXPECT_TRUE(IsInTrouble(Pod("Running", Waiting("CrashLoopBackOff", ""))));
  EXPECT_FALSE(IsInTrouble(Pod("Running", {{"running", Object::object()}})));
  EXPECT_FALSE(IsInTrouble(Pod("Pending", Waiting("ContainerCreating", ""))));
  EXPECT_FALSE(IsInTrouble(Pod("Succeeded", Terminated(0, "Completed"))));
}

TEST(PodStateTest, AnInitContainerIsToBlameUntilTheMainOneHasStarted) {
  const auto with_init = [](const Object& main, const Object& init) {
    return Pod("Pending", main, {{"initContainerStatuses", {init}}});
  };
  const Object waits = Waiting("PodInitializing", "");
  const Object runs = {{"running", Object::object()}};
  const Object again = {{"name", "fetch"}, {"state", runs}, {"lastState", Terminated(4, "Error")}};
  EXPECT_EQ(ContainerToBlame(with_init(waits, again)), "fetch");
  EXPECT_FALSE(IsInTrouble(with_init(waits, again))) << "it may succeed now";
  EXPECT_EQ(ContainerToBlame(with_init(waits, {{"name", "fetch"}, {"state", runs}})), "trainer");
  const Object failed = {{"name", "fetch"}, {"state", Terminated(4, "Error")}};
  EXPECT_EQ(InitContainerToBlame(with_init(waits, failed)), "fetch");
  EXPECT_TRUE(IsInTrouble(with_init(waits, failed)));
  EXPECT_EQ(InitContainerToBlame(with_init(runs, failed)), "") << "a sidecar's end";
}

}  // namespace
}  // namespace lockstep::cli
