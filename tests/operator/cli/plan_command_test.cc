// Runs `lockstep plan` as a program. tests/local_run/plan_test.py compares plans with real runs.
#include "operator/cli/plan_command.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "operator/local/process_kubelet.h"
#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class PlanCommandTest : public ::testing::Test {
 protected:
  Ended Plan(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"plan", "job.yaml", "--set",
                                     R"(spec.training={"model": {"name": "mlp"}, )"
                                     R"("dataset": {"format": "synthetic"}, )"
                                     R"("batchSize": {"global": 8}, "steps": 5})"};
    args.insert(args.end(), more.begin(), more.end());
    return testing::RunProgram(folder_.path(), args);
  }
  void SetUp() override {
    WriteTextFile(folder_.At("job.yaml"), testing::ShellJob("job", 2, "exit 0"));
  }

  TempDirectory folder_;
};

TEST_F(PlanCommandTest, PrintsTheSameForPeopleAndForPrograms) {
  const Ended text = Plan(), json = Plan({"--output", "json"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("Parameters: 101,770 trainable"));
  EXPECT_EQ(json.code, 0) << json.err;
  const auto plan = json.Report();
  EXPECT_EQ(plan["parameters"]["trainable"], 101'770);
  EXPECT_EQ(plan["replicas"]["pods"], 2);
  EXPECT_EQ(plan["steps"]["batch_per_replica"], 4);
  EXPECT_EQ(plan["refusal"], nullptr);
}

TEST_F(PlanCommandTest, ALimitOfMemoryIsThatOfThePod) {
  const std::string limit =
      "spec.replicaSpecs.Worker.template.spec.containers[0].resources.limits.memory=";
  const Ended fits = Plan({"--set", limit + "1Gi", "--output", "json"});
  EXPECT_EQ(fits.code, 0) << fits.err;
  EXPECT_EQ(fits.Report()["memory"]["pods"][0]["limit"], 1 << 30);
  const Ended refused = Plan({"--set", limit + "20Mi"});
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.out, HasSubstr("Memory of a pod of Worker: "));
  EXPECT_THAT(refused.err, HasSubstr("job.yaml: spec.training.batchSize: with 4 samples per "));
  EXPECT_THAT(refused.err, HasSubstr("no batch fits, not even one sample per replica"));
}

TEST_F(PlanCommandTest, AJobOfAnotherProgramHasNoPlan) {
  const Ended refused = testing::RunProgram(folder_.path(), {"plan", "job.yaml"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("job.yaml: spec.training: found none"));
}

TEST_F(PlanCommandTest, AModelThatDoesNotFitItsInputIsRefusedAsByTheTrainer) {
  const Ended refused =
      Plan({"--set", "spec.training.model.name=resnet-50", "--set",
            R"(spec.training.model={"layers": [{"type": "Dense", "units": 3}]})"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("job.yaml: layers[0]: "));
}

constexpr char kContainer[] = "spec.replicaSpecs.Worker.template.spec.containers[0]";

TEST_F(PlanCommandTest, LimitsAreCheckedAsByRun) {
  const std::string limits = std::string(kContainer) + ".resources.limits.";
  for (const char* limit : {"memory=-1Gi", "memory=lots", "memory=16Ei", "cpu=-1", "cpu=9E"}) {
    SCOPED_TRACE(limit);
    const Ended planned = Plan({"--set", limits + limit});
    const Ended ran =
        testing::RunProgram(folder_.path(), {"run", "job.yaml", "--set", limits + limit});
    EXPECT_EQ(planned.code, 2);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(planned.out, "");
    EXPECT_THAT(planned.err, HasSubstr("job.yaml: " + limits));
    EXPECT_THAT(planned.err, HasSubstr(ran.err));
  }
  const Ended none =
      Plan({"--set", limits + "memory=0", "--set", limits + "cpu=0", "--output", "json"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(none.Report()["memory"]["pods"][0]["limit"], nullptr);
  const Ended shared = Plan({"--output", "json"});
  EXPECT_EQ(none.Report()["replicas"]["threads"], shared.Report()["replicas"]["threads"])
      << "as without a limit";
}

TEST_F(PlanCommandTest, CoresAreThoseOfThisMachineUnlessThePodIsOfACluster) {
  const std::string limits = std::string(kContainer) + ".resources.limits.";
  const auto threads = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--output", "json", "--set", limits + "cpu=64"};
    args.insert(args.end(), more.begin(), more.end());
    const Ended plan = Plan(args);
    EXPECT_EQ(plan.code, 0) << plan.err;
    return plan.Report()["replicas"]["threads"].get<std::size_t>();
  };
  EXPECT_EQ(threads({}), local::PermittedCpus().size());
  EXPECT_EQ(threads({"--set", limits + "memory=64Gi"}), 64u);
}

TEST_F(PlanCommandTest, VolumesAreCheckedAsByRun) {
  const Ended unknown = Plan({"--volume", "date=."});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("the job has no volume of this name"));
  const std::vector<std::string> nfs = {
      "--set",
      R"(spec.replicaSpecs.Worker.template.spec.volumes=[{name: scratch, nfs: {server: a, path: b}}])"};
  const Ended refused = Plan(nfs);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("volume \"scratch\" is of type nfs"));
  std::vector<std::string> named = nfs;
  named.insert(named.end(), {"--volume", "scratch=."});
  EXPECT_EQ(Plan(named).code, 0);
}

TEST_F(PlanCommandTest, EachLineOfARefusalNamesTheFile) {
  const Ended refused =
      Plan({"--set", R"(spec.training.dataset={"format": "idx", "path": "/nowhere"})"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("job.yaml: /nowhere: no training images found"));
  EXPECT_THAT(refused.err,
              HasSubstr("\njob.yaml: spec.training.dataset: format idx fixes no shape"));
}

TEST_F(PlanCommandTest, ADescriptionMustBeOne) {
  const Ended refused = Plan({"--sample-shape", "3,224"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("found \"3,224\", expected one or three positive numbers"));
}

TEST_F(PlanCommandTest, WhatNoMemoryHoldsIsRefused) {
  const std::vector<std::string> image = {
      "--set",
      R"(spec.training.dataset={"format": "imageFolder", "path": "/x", "imageSize": [8, 8]})",
      "--classes", "10", "--sample-shape"};
  const auto plan = [&](const std::string& shape, const std::string& samples) {
    std::vector<std::string> args = image;
    args.insert(args.end(), {shape, "--samples", samples});
    return Plan(args);
  };
  const Ended shape = plan("4194304,4194304,4194304", "10");
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.err, HasSubstr("--sample-shape: found 7.379e+19 elements, expected at most "
                                   "2147483647"));
  const Ended samples = plan("3,512,512", "1152921504606846976");
  EXPECT_EQ(samples.code, 2);
  EXPECT_THAT(samples.err, HasSubstr("--samples: found 1152921504606846976 samples of 786432"));
}

TEST_F(PlanCommandTest, AFileThatIsOnlyPlannedChoosesNoProgramAndNoLibrary) {
  const std::string ran = folder_.At("ran"), trainer = folder_.At("lockstep-trainer");
  WriteTextFile(trainer, "#!/bin/sh\n: >'" + ran + "'\n");
  std::filesystem::permissions(trainer, std::filesystem::perms::owner_all);
  const nlohmann::json env = {{{"name", "PATH"}, {"value", folder_.path()}},
                              {{"name", "LD_PRELOAD"}, {"value", "./none.so"}},
                              {{"name", "LOCKSTEP_TOKEN_FILE"}, {"value", "none"}}};
  const Ended plan =
      Plan({"--set", std::string(kContainer) + ".env=" + env.dump(), "--output", "json"});
  EXPECT_EQ(plan.code, 0);
  EXPECT_EQ(plan.err, "") << "the loader names a library that it cannot load";
  EXPECT_EQ(plan.Report()["parameters"]["trainable"], 101'770);
  EXPECT_FALSE(std::filesystem::exists(ran));
}

TEST_F(PlanCommandTest, WhichReplicaThePodIsIsCheckedAsByTheTrainer) {
  const nlohmann::json env = {{{"name", "LOCKSTEP_GRACE_SECONDS"}, {"value", "soon"}}};
  const Ended refused = Plan({"--set", std::string(kContainer) + ".env=" + env.dump()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("LOCKSTEP_GRACE_SECONDS: found \"soon\""));
}

TEST_F(PlanCommandTest, ANameThatTurnsLettersIsEscapedForPrograms) {
  const Ended plan = Plan({"--set",
                           "spec.training.model={\"layers\": [{\"type\": \"Flatten\"}, {\"type\": "
                           "\"Dense\", \"units\": 10, \"name\": \"a\u202Eb\"}]}",
                           "--output", "json"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("\"a\\u202eb\""));
}

TEST_F(PlanCommandTest, AFileThatCannotBeReadIsNamed) {
  const Ended missing = testing::RunProgram(folder_.path(), {"plan", "none.yaml"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("none.yaml: the job cannot be read: No such file"));
  const Ended folder = testing::RunProgram(folder_.path(), {"plan", "."});
  EXPECT_EQ(folder.code, 2);
  EXPECT_THAT(folder.err, HasSubstr(".: the job cannot be read: Is a directory"));
  WriteTextFile(folder_.At("bad.yaml"), "kind: [TrainingJob");
  const Ended bad = testing::RunProgram(folder_.path(), {"plan", "bad.yaml"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("bad.yaml"));
}

// A note is on stderr, so that stdout is one object.
TEST_F(PlanCommandTest, SaysOnStderrWhatItCannotCount) {
  const Ended plan =
      Plan({"--set", R"(spec.training.dataset={"format": "csv", "path": "/data"})", "--set",
            R"(spec.training.model={"layers": [{"type": "Dense", "units": 3}]})", "--sample-shape",
            "12", "--classes", "3", "--output", "json"});
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("note: spec.training.dataset: samples that are kept in memory"));
  EXPECT_EQ(plan.Report()["data"]["training_samples"], nullptr);
}

}  // namespace
}  // namespace lockstep::cli
