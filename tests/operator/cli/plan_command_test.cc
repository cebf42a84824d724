// Runs `lockstep plan` as a program. tests/local_run/plan_test.py compares plans with real runs.
#include "operator/cli/plan_command.h"

#include <gmock/gmock.h>

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
  EXPECT_EQ(fits.Report()["memory"]["pod_limit"], 1 << 30);
  const Ended refused = Plan({"--set", limit + "20Mi"});
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.out, HasSubstr("Memory of a pod: "));
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

}  // namespace
}  // namespace lockstep::cli
