// Runs `lockstep convert` as a program: checks stdout, stderr and its exit code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using testing::Ended;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunProgram;
using ::testing::StartsWith;

constexpr char kTfJob[] = R"(apiVersion: v1
kind: ConfigMap
metadata: {name: script}
data: {a: "1"}
---
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          containers: [{name: tensorflow, image: "example.com/train:1"}]
)";

class ConvertCommandTest : public ::testing::Test {
 protected:
  Ended Convert(const std::string& text) {
    std::ofstream(folder_.path() + "/job.yaml") << text;
    return RunProgram(folder_.path(), {"convert", "job.yaml"});
  }
  TempDirectory folder_;
};

TEST_F(ConvertCommandTest, WhatItPrintsIsAValidTrainingJobBesideItsCompanions) {
  const Ended ended = Convert(kTfJob);
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("apiVersion: v1\n"));
  EXPECT_THAT(ended.out, HasSubstr("---\napiVersion: training.lockstep.dev/v1\nkind: TrainingJob"));
  EXPECT_THAT(ended.err, HasSubstr("TFJob mnist: spec.runPolicy.cleanPodPolicy: is not set"));
  std::ofstream(folder_.path() + "/converted.yaml") << ended.out;
  const Ended valid = RunProgram(folder_.path(), {"validate", "converted.yaml"});
  EXPECT_EQ(valid.code, 0) << valid.err;
}

TEST_F(ConvertCommandTest, AListFromKubectlIsUnpacked) {
  const Ended ended = Convert(R"(apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: kubeflow.org/v1
  kind: TFJob
  metadata: {name: one, uid: 1f2e, resourceVersion: "7"}
  spec: &spec
    tfReplicaSpecs:
      Worker: {template: {spec: {containers: [{name: tensorflow, image: "example.com/train:1"}]}}}
  status: {conditions: []}
- apiVersion: kubeflow.org/v1
  kind: TFJob
  metadata: {name: two}
  spec: *spec
)");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("kind: TrainingJob\nmetadata:\n  name: one\n"));
  EXPECT_THAT(ended.out, HasSubstr("---\napiVersion: training.lockstep.dev/v1\nkind: TrainingJob\n"
                                   "metadata:\n  name: two\n"));
  EXPECT_THAT(ended.out, Not(HasSubstr("kind: List")));
}

TEST_F(ConvertCommandTest, KubeflowsOtherJobsArePrintedUnchangedWithANote) {
  const Ended ended =
      Convert(std::string(kTfJob) +
              "---\n{apiVersion: kubeflow.org/v1, kind: MPIJob, metadata: {name: ring}}\n"
              "---\n{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, "
              "metadata: {name: tune}}\n"
              "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: fetch}}\n");
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("kind: MPIJob"));
  EXPECT_THAT(ended.err, HasSubstr("MPIJob ring: kubeflow.org/v1 is not converted, only TFJob"));
  EXPECT_THAT(ended.err,
              HasSubstr("TrainJob tune: trainer.kubeflow.org/v1alpha1 is not converted"));
  EXPECT_THAT(ended.err, Not(HasSubstr("fetch")));
}

TEST_F(ConvertCommandTest, BadInputIsAUsageErrorThatSaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* expected;
  };
  const Case cases[] = {
      {"kind: Pod", "found no TFJob, PyTorchJob or JAXJob"},
      {"", "found no TFJob, PyTorchJob or JAXJob"},
      {"a: [", "job.yaml"},
      {"{apiVersion: kubeflow.org/v1, kind: TFJob, metadata: {name: x}}",
       "TFJob x: spec: found none"},
  };
  for (const Case& c : cases) {
    const Ended ended = Convert(c.text);
    EXPECT_EQ(ended.code, 2) << c.text;
    EXPECT_EQ(ended.out, "") << c.text;
    EXPECT_THAT(ended.err, HasSubstr(c.expected)) << c.text;
  }
  EXPECT_EQ(RunProgram(folder_.path(), {"convert", "absent.yaml"}).code, 2);
}

}  // namespace
}  // namespace lockstep::cli
