#include "operator/local/pod_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "operator/local/memory_client.h"
#include "tests/support/builders.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using kube::Object;
using ::testing::HasSubstr;

Object PodOf(const std::string& role, const Object& limits) {
  return {
      {"metadata",
       {{"name", "job-" + role + "-0"}, {"labels", {{"training.lockstep.dev/role", role}}}}},
      {"spec",
       {{"containers",
         {{{"name", "sidecar"}}, {{"name", "trainer"}, {"resources", {{"limits", limits}}}}}}}}};
}

absl::StatusOr<std::optional<std::int64_t>> Memory(const Object& quantity) {
  const Object pod = PodOf("worker", {{"memory", quantity}});
  return MemoryLimit(pod, pod["spec"]["containers"][1]);
}

absl::StatusOr<std::optional<std::int64_t>> Cpu(const Object& quantity) {
  const Object pod = PodOf("worker", {{"cpu", quantity}});
  return CpuLimit(pod, pod["spec"]["containers"][1]);
}

TEST(PodChecksTest, LimitsAreReadAsByKubernetes) {
  EXPECT_EQ(*Memory("512Mi"), 512 << 20);
  EXPECT_EQ(*Memory("1.5k"), 1500);
  EXPECT_EQ(*Cpu("500m"), 500);
  EXPECT_EQ(*Cpu(2), 2000);
  EXPECT_EQ(*Memory("0"), std::nullopt);
  EXPECT_EQ(*Cpu(0), std::nullopt);
  const Object pod = PodOf("worker", Object::object());
  EXPECT_EQ(*MemoryLimit(pod, pod["spec"]["containers"][0]), std::nullopt);
}

TEST(PodChecksTest, InitContainersAskForGpus) {
  const Object without = PodOf("worker", {{"cpu", 1}});
  EXPECT_FALSE(AsksForGpus({without, without}));
  EXPECT_TRUE(AsksForGpus({without, PodOf("worker", {{"nvidia.com/gpu", 1}})}));
  Object pod = without;
  pod["spec"]["initContainers"] = {
      {{"name", "tokenize"}, {"resources", {{"limits", {{"nvidia.com/gpu", 1}}}}}}};
  EXPECT_TRUE(AsksForGpus({pod}));
}

TEST(PodChecksTest, ALimitThatIsNoneNamesItsField) {
  const std::string field =
      "spec.replicaSpecs.Worker.template.spec.containers[1].resources.limits.";
  EXPECT_EQ(Memory("lots").status().message(),
            field + "memory: found \"lots\", expected a quantity like \"2\", \"500m\" or \"4Gi\"");
  EXPECT_EQ(Memory("-1Gi").status().message(),
            field + "memory: found \"-1Gi\", expected 0 (no limit) to 1Ei");
  EXPECT_EQ(Memory("16Ei").status().message(),
            field + "memory: found \"16Ei\", expected 0 (no limit) to 1Ei");
  EXPECT_EQ(Cpu("-1").status().message(), field + "cpu: found \"-1\", expected 0 (no limit) to 1M");
  EXPECT_EQ(Cpu("9E").status().message(), field + "cpu: found \"9E\", expected 0 (no limit) to 1M");
}

TEST(PodChecksTest, EveryPodIsChecked) {
  const VolumeOptions options{.work_dir = "/work", .current_dir = "/", .folders = {}};
  const Object good = PodOf("worker", {{"cpu", 1}});
  EXPECT_TRUE(CheckPods({good, good}, options).ok());
  EXPECT_THAT(
      std::string(CheckPods({good, PodOf("ps", {{"memory", "-1"}})}, options).message()),
      HasSubstr("spec.replicaSpecs.PS.template.spec.containers[1].resources.limits.memory"));
  Object nfs = good;
  nfs["spec"]["volumes"] = {{{"name", "data"}, {"nfs", {{"server", "a"}, {"path", "/b"}}}}};
  EXPECT_THAT(std::string(CheckPods({good, nfs}, options).message()),
              HasSubstr("volume \"data\" is of type nfs"));
  EXPECT_TRUE(CheckPods({nfs}, {"/work", "/", {{"data", "/srv"}}}).ok());
  EXPECT_THAT(std::string(CheckPods({nfs}, {"/work", "/", {{"date", "/srv"}}}).message()),
              HasSubstr("--volume date=/srv: the job has no volume of this name; it has: data"));
}

TEST(PodChecksTest, ParameterServersTakeNoShareOfTheCores) {
  const auto job = testing::Job("j").Workers(2).ParameterServers(1).Evaluator().BuildWithDefaults();
  EXPECT_EQ(PodsThatShareCores(job), 3);
  EXPECT_TRUE(RunsOnAllCores(PodOf("ps", Object::object())));
  EXPECT_FALSE(RunsOnAllCores({{"metadata", Object::object()}}));
}

class ChecksOfStartsTest : public ::testing::Test {
 protected:
  // Returns why a pod cannot be started whose main container is like `container`.
  std::string Refused(const Object& container, const Object& more = Object::object()) {
    Object pod = {{"metadata", {{"name", "j-worker-0"}, {"namespace", "default"}}},
                  {"status", {{"podIP", "127.0.0.1"}}},
                  {"spec",
                   {{"volumes", {{{"name", "made"}, {"emptyDir", Object::object()}}}},
                    {"containers",
                     {{{"name", "pytorch"},
                       {"volumeMounts", {{{"name", "made"}, {"mountPath", "/made"}}}}}}}}}};
    pod["spec"]["containers"][0].update(container);
    pod["spec"].update(more);
    const VolumeOptions volumes{
        .work_dir = folder_.At("w"), .current_dir = folder_.path(), .folders = {}};
    const HostFacts host{.env = {{"PATH", "/usr/bin:/bin"}},
                         .program_dir = folder_.path(),
                         .current_dir = folder_.path()};
    lockstep::testing::FakeClock clock;
    MemoryClient client(clock);
    return std::string(CheckStarts({pod}, volumes, host, client).message());
  }

  TempDirectory folder_;
};

TEST_F(ChecksOfStartsTest, AProgramThatThisMachineLacksIsRefused) {
  EXPECT_EQ(Refused({{"command", {"sh"}}}), "");
  EXPECT_EQ(Refused({{"command", {"no-such-program"}}}),
            "pod j-worker-0: container pytorch: command not found: no-such-program: lockstep run "
            "starts programs of this machine, not of the image");
  EXPECT_THAT(Refused({{"command", {"/opt/no-such/python"}}}),
              HasSubstr("container pytorch: command: /opt/no-such/python does not exist: "));
  WriteTextFile(folder_.At("train.sh"), "exit 0");
  EXPECT_THAT(Refused({{"command", {"./train.sh"}}}),
              HasSubstr("command: " + folder_.At("./train.sh") + " is no executable file"));
  std::filesystem::permissions(folder_.At("train.sh"), std::filesystem::perms::owner_all);
  EXPECT_EQ(Refused({{"command", {"./train.sh"}}}), "");
  EXPECT_EQ(Refused({{"command", {"train.sh"}}, {"env", {{{"name", "PATH"}, {"value", "/bin"}}}}}),
            "")
      << "lockstep's own folder";
}

TEST_F(ChecksOfStartsTest, AWorkingDirectoryThatThisMachineLacksIsRefused) {
  EXPECT_EQ(Refused({{"command", {"sh"}}, {"workingDir", "/usr"}}), "");
  EXPECT_EQ(Refused({{"command", {"sh"}}, {"workingDir", "/no/such"}}),
            "pod j-worker-0: container pytorch: workingDir: /no/such does not exist: lockstep run "
            "starts programs of this machine, not of the image");
  WriteTextFile(folder_.At("file"), "");
  EXPECT_THAT(Refused({{"command", {"sh"}}, {"workingDir", "file"}}),
              HasSubstr("workingDir: " + folder_.At("file") + " is no folder: "));
}

TEST_F(ChecksOfStartsTest, WhatMayBeMadeWhenPodsStartIsNotLookedFor) {
  EXPECT_EQ(Refused({{"command", {"/made/run.sh"}}}), "");
  EXPECT_EQ(Refused({{"command", {"./run.sh"}}, {"workingDir", "/made/folder"}}), "");
  EXPECT_EQ(Refused({{"command", {"run.sh"}},
                     {"env", {{{"name", "PATH"}, {"value", "/made/bin:/bin"}}}}}),
            "");
  EXPECT_NE(Refused({{"command", {"/made-elsewhere/run.sh"}}}), "");
  const Object init = {{"initContainers", {{{"name", "install"}, {"command", {"no-such"}}}}}};
  EXPECT_EQ(Refused({{"command", {"/opt/no-such/python"}}}, init), "");
}

TEST_F(ChecksOfStartsTest, OtherContainersMayLackTheirPrograms) {
  const Object containers = {{{"name", "proxy"}, {"command", {"no-such-proxy"}}},
                             {{"name", "pytorch"}, {"command", {"sh"}}}};
  EXPECT_EQ(Refused(Object::object(), {{"containers", containers}}), "");
}

}  // namespace
}  // namespace lockstep::local
