// Runs `lockstep validate` as a program: checks stdout, stderr and its exit code.
#include <gmock/gmock.h>

#include "tests/operator/cli/program.h"

namespace lockstep::cli {
namespace {

using testing::Ended;
using ::testing::HasSubstr;

class ValidateCommandTest : public ::testing::Test {
 protected:
  ValidateCommandTest() {
    WriteTextFile(folder_.At("job.yaml"), testing::ShellJob("job", 2, "exit 0"));
  }
  Ended Validate(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"validate", "job.yaml"};
    args.insert(args.end(), more.begin(), more.end());
    return testing::RunProgram(folder_.path(), args);
  }
  TempDirectory folder_;
};

TEST_F(ValidateCommandTest, NamesTheJobThatIsValid) {
  const Ended valid = Validate({});
  EXPECT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.out, "job.yaml: TrainingJob job is valid\n");
}

TEST_F(ValidateCommandTest, ProgramsGetOneObject) {
  const Ended valid = Validate({"--output", "json"});
  EXPECT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.out, R"({"file":"job.yaml","job":"job","valid":true,"faults":[]})"
                       "\n");
  const Ended invalid =
      Validate({"--output", "json", "--set", "spec.suspend=maybe", "--set", "spec.fancy=1"});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_EQ(invalid.err, "");
  const auto report = nlohmann::json::parse(invalid.out);
  EXPECT_EQ(report["valid"], false);
  EXPECT_EQ(report["job"], nullptr);
  ASSERT_EQ(report["faults"].size(), 2u);
  EXPECT_THAT(report["faults"][0].get<std::string>(), ::testing::StartsWith("spec."));
}

TEST_F(ValidateCommandTest, NothingInAnObjectActsOnATerminal) {
  const std::string name = "\u202Ejob.yaml";
  WriteTextFile(folder_.At(name), testing::ShellJob("job", 2, "exit 0"));
  const Ended valid = testing::RunProgram(folder_.path(), {"validate", name, "--output", "json"});
  EXPECT_EQ(valid.out, R"({"file":"\u202ejob.yaml","job":"job","valid":true,"faults":[]})"
                       "\n");
}

TEST_F(ValidateCommandTest, NothingInALineActsOnATerminal) {
  const std::string name = "\u202Ejob.yaml";
  WriteTextFile(folder_.At(name), testing::ShellJob("job", 2, "exit 0"));
  const Ended valid = testing::RunProgram(folder_.path(), {"validate", name});
  EXPECT_EQ(valid.out, "?job.yaml: TrainingJob job is valid\n");
}

TEST_F(ValidateCommandTest, ListsEveryFault) {
  const Ended invalid = Validate({"--set", "spec.suspend=maybe", "--set", "spec.fancy=1"});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_EQ(invalid.out, "");
  EXPECT_THAT(invalid.err, HasSubstr("job.yaml: spec.suspend: found \"maybe\""));
  EXPECT_THAT(invalid.err, HasSubstr("job.yaml: spec.fancy: unknown field"));
}

TEST_F(ValidateCommandTest, EachJobOfAFileIsCheckedAndNamed) {
  const std::string config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
  nlohmann::json second = nlohmann::json::parse(testing::ShellJob("b", 2, "exit 0"));
  const auto write = [&] {
    WriteTextFile(folder_.At("job.yaml"), testing::ShellJob("a", 2, "exit 0") + "\n---\n" + config +
                                              "---\n" + second.dump());
  };
  write();
  const Ended valid = Validate({});
  EXPECT_EQ(valid.code, 0) << valid.err;
  EXPECT_EQ(valid.out,
            "job.yaml: TrainingJob a is valid\n"
            "job.yaml: TrainingJob b is valid\n");
  EXPECT_EQ(Validate({"--output", "json"}).out,
            R"({"file":"job.yaml","job":null,"valid":true,"faults":[]})"
            "\n");
  second["spec"]["fancy"] = 1;
  write();
  const Ended invalid = Validate({});
  EXPECT_EQ(invalid.code, 2);
  EXPECT_EQ(invalid.out, "job.yaml: TrainingJob a is valid\n");
  EXPECT_THAT(invalid.err,
              ::testing::StartsWith("job.yaml: TrainingJob b: spec.fancy: unknown field"));
  const auto report = nlohmann::json::parse(Validate({"--output", "json"}).out);
  EXPECT_EQ(report["valid"], false);
  EXPECT_THAT(report["faults"].at(0).get<std::string>(),
              ::testing::StartsWith("TrainingJob b: spec.fancy: unknown field"));
}

}  // namespace
}  // namespace lockstep::cli
