#include "operator/cli/files/job_file.h"

#include <gmock/gmock.h>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;

std::string Fault(const std::string& text) {
  const auto file = ParseJobFile(text, "f.yaml", {});
  return file.ok() ? "" : std::string(file.status().message());
}

TEST(JobFileTest, HoldsAJobAndWhatBelongsToIt) {
  const std::string map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
  const auto file = ParseJobFile(map + "---\n" + testing::ShellJob("j", 2, "x"), "f.yaml",
                                 {"metadata.namespace=lab"});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->job.metadata.name, "j");
  ASSERT_EQ(file->objects.size(), 1U);
  EXPECT_EQ(kube::Namespace(file->objects[0]), "lab");
}

TEST(JobFileTest, WhatIsNoTrainingJobIsNamed) {
  EXPECT_THAT(Fault(""), HasSubstr("f.yaml: found nothing, expected a TrainingJob"));
  EXPECT_THAT(Fault("kind: Pod\n"), HasSubstr("found Pod, expected a TrainingJob"));
  EXPECT_THAT(Fault("[1]"), HasSubstr("f.yaml"));
  EXPECT_THAT(Fault("a: [b\n"), HasSubstr("f.yaml"));
  const std::string job = testing::ShellJob("j", 1, "x");
  EXPECT_THAT(Fault(job + "\n---\n" + job),
              HasSubstr("f.yaml: found 2 TrainingJobs, expected one"));
}

TEST(JobFileTest, NullInATemplateIsAbsentAsInACluster) {
  const auto file = ParseJobFile(
      testing::ShellJob("j", 1, "x"), "f.yaml",
      {"spec.replicaSpecs.Worker.template.spec.volumes=[{name: v, emptyDir: null}]",
       "spec.replicaSpecs.Worker.template.spec.containers[0].envFrom=[{configMapRef: null}]"});
  ASSERT_TRUE(file.ok()) << file.status();
  const kube::Object& spec = (*file->job.spec.replica_specs.at(api::Role::kWorker).tmpl)["spec"];
  EXPECT_EQ(spec["volumes"].dump(), R"([{"name":"v"}])");
  EXPECT_EQ(spec["containers"][0]["envFrom"].dump(), "[{}]");
}

// As an API server refuses it.
TEST(JobFileTest, WhatIsNoTextOfAConfigMapOrASecretIsNamed) {
  const std::string job = "\n---\n" + testing::ShellJob("j", 1, "x");
  const auto fault = [&](const std::string& kind, const std::string& fields) {
    return Fault("apiVersion: v1\nkind: " + kind + "\nmetadata: {name: m}\n" + fields + job);
  };
  EXPECT_EQ(
      fault("Secret", "stringData: {port: 5432}"),
      "f.yaml: Secret \"m\": stringData.port: found a number, expected a text: put it in quotes");
  EXPECT_EQ(fault("Secret", "data: x\nstringData: {a: b}"),
            "f.yaml: Secret \"m\": data: found a string, expected an object of texts");
  for (const char* plain : {"hunter2!", "abcde", "aGk"}) {
    const std::string found = fault("Secret", "data: {token: " + std::string(plain) + "}");
    EXPECT_THAT(found, HasSubstr("Secret \"m\": data.token: found a text that is not base64"))
        << plain;
    EXPECT_EQ(found.find(plain), std::string::npos) << "a secret is not repeated";
  }
  EXPECT_THAT(fault("ConfigMap", "data: {batch: 128, fast: true}"),
              HasSubstr("data.batch: found a number, expected a text: put it in quotes\n"
                        "f.yaml: ConfigMap \"m\": data.fast: found a boolean"));
  EXPECT_THAT(fault("ConfigMap", "binaryData: {a: \"?\"}"),
              HasSubstr("binaryData.a: found a text that"));
  EXPECT_THAT(fault("ConfigMap", "data: {a/b: x}"),
              HasSubstr("data.a/b: expected a key of letters"));
  EXPECT_EQ(fault("Secret", "data: {a: aGk=, b: }\nstringData: {c: \"1\"}"), "");
  EXPECT_EQ(fault("ConfigMap", "data: {a: x}\nbinaryData: {b: aGk=}"), "");
  EXPECT_THAT(Fault("kind: Secret\nmetadata: {name: m}" + job),
              HasSubstr("Secret \"m\": apiVersion: expected v1"));
}

TEST(JobFileTest, EveryFaultHasALineOfItsOwn) {
  const auto file = ParseJobFile(testing::ShellJob("j", 1, "x"), "f.yaml",
                                 {"spec.a=1", "spec.runPolicy.backoffLimit=many"});
  const std::string message(file.status().message());
  EXPECT_THAT(message, HasSubstr("f.yaml: spec.runPolicy.backoffLimit: found \"many\""));
  EXPECT_THAT(message, HasSubstr("\nf.yaml: spec.a: unknown field"));
}

}  // namespace
}  // namespace lockstep::cli
