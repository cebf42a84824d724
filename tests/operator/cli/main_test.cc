// Runs the `lockstep` program without a verb. tests/cli_docs_test.py reads what --help prints.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "tests/operator/cli/fake_cluster.h"
#include "tests/operator/cli/program.h"
#include "tests/support/eventually.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::RunProgram;
using ::testing::StartsWith;

TEST(MainTest, PrintsItsVersion) {
  const testing::Ended ended = RunProgram("/", {"--version"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, StartsWith("lockstep "));
}

TEST(MainTest, PrintsItsExitCodesWithoutAVerb) {
  const testing::Ended ended = RunProgram("/", {"--exit-codes"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, StartsWith(R"({"exit_codes":[{"code":0,)"));
}

TEST(MainTest, RequiresOneVerb) {
  EXPECT_EQ(RunProgram("/", {}).code, 2);
  EXPECT_EQ(RunProgram("/", {"fly"}).code, 2);
  EXPECT_EQ(RunProgram("/", {"validate"}).code, 2) << "FILE is missing";
}

TEST(MainTest, NamesAWordThatIsNoVerbAndNoOption) {
  const auto said = [](const std::string& word) {
    const testing::Ended ended = RunProgram("/", {word, "x"});
    EXPECT_EQ(ended.code, 2) << word;
    return ended.err;
  };
  EXPECT_EQ(said("stauts"), "lockstep: found the verb \"stauts\", did you mean \"status\"?\n");
  EXPECT_THAT(said("delete"),
              StartsWith("lockstep: found the verb \"delete\", expected one of init, run, plan"));
  EXPECT_EQ(said("--verson"),
            "lockstep: found the option \"--verson\", did you mean \"--version\"?\n");
  EXPECT_THAT(said("-v"), StartsWith("lockstep: found the option \"-v\", expected one of "));
}

TEST(MainTest, HelpMayStandBeforeTheVerb) {
  const testing::Ended ended = RunProgram("/", {"help", "run"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, RunProgram("/", {"run", "--help"}).out);
  EXPECT_EQ(RunProgram("/", {"help"}).out, RunProgram("/", {"--help"}).out);
  EXPECT_EQ(RunProgram("/", {"help", "stauts"}).err,
            "lockstep: found the verb \"stauts\", did you mean \"status\"?\n");
}

TEST(MainTest, AJobIsNotLookedForInAllNamespaces) {
  const testing::Ended ended = RunProgram("/", {"status", "mnist", "-A"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.err, HasSubstr("JOB excludes --all-namespaces"));
}

// As kubectl prints it.
TEST(MainTest, AJobMayBeNamedWithItsType) {
  const testing::FakeCluster cluster([](const lockstep::testing::FakeHttpServer::Request& request,
                                        lockstep::testing::FakeHttpServer::Connection& connection) {
    connection.Respond(
        403, R"({"kind": "Status", "code": 403, "message": "for )" + request.target + R"("})");
  });
  const auto said = [&cluster](const char* verb, const char* job) {
    return RunProgram("/", {verb, job, "--kubeconfig", cluster.kubeconfig()}).err;
  };
  for (const char* verb : {"status", "describe", "top", "logs", "suspend", "resume"}) {
    for (const char* job : {"tj/mnist", "trainingjob.training.lockstep.dev/mnist"}) {
      EXPECT_THAT(said(verb, job), HasSubstr("/trainingjobs/mnist (403)")) << verb;
    }
    EXPECT_THAT(said(verb, "pod/mnist"), HasSubstr("found \"pod/mnist\", expected a job's name"));
  }
}

TEST(MainTest, AClusterWithoutLockstepIsNamed) {
  const testing::FakeCluster cluster(404, "404 page not found\n");
  for (const char* verb : {"status", "describe", "top", "logs", "suspend", "resume"}) {
    const testing::Ended ended = RunProgram("/", {verb, "j", "--kubeconfig", cluster.kubeconfig()});
    EXPECT_EQ(ended.code, 1) << verb;
    EXPECT_THAT(ended.err,
                ::testing::EndsWith("404 page not found (404): found a cluster that knows no "
                                    "training.lockstep.dev/v1 TrainingJob, expected one where "
                                    "Lockstep is installed\n"))
        << verb;
  }
}

// The program takes a code that its verb does not declare for one of its own faults.
TEST(MainTest, EachVerbOfAClusterDeclaresHowItEndsWithoutAnAnswer) {
  const testing::FakeCluster cluster(403, R"({"kind": "Status", "code": 403, "message": "no"})");
  for (const char* verb : {"status", "describe", "top", "logs", "suspend", "resume"}) {
    const testing::Ended ended = RunProgram("/", {verb, "j", "--kubeconfig", cluster.kubeconfig()});
    EXPECT_EQ(ended.code, 1) << verb;
    EXPECT_THAT(ended.err, StartsWith("lockstep: ")) << verb;
    EXPECT_THAT(ended.err, Not(HasSubstr("internal error"))) << verb;
  }
}

// Else a script would take an empty or cut file for the whole.
TEST(MainTest, AFullDiskBehindStdoutIsNoSuccess) {
  const TempDirectory folder;
  WriteTextFile(folder.At("job.yaml"), testing::ShellJob("job", 1, "exit 0"));
  WriteTextFile(folder.At("failing.yaml"), testing::ShellJob("job", 1, "exit 3"));
  WriteTextFile(folder.At("many.yaml"), testing::ShellJob("job", 100, "exit 0"));
  WriteTextFile(folder.At("tfjob.yaml"),
                R"({"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "j"},
                    "spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec":
                    {"containers": [{"name": "tensorflow", "image": "a"}]}}}}}})");
  const auto run = [&](const std::vector<std::string>& args, int code) {
    testing::Program program(folder.path(), args,
                             [] { dup2(open("/dev/full", O_WRONLY), STDOUT_FILENO); });
    const testing::Ended ended = program.Wait();
    EXPECT_EQ(ended.code, code) << args.front();
    EXPECT_THAT(ended.err, HasSubstr("lockstep: cannot write the output: ")) << args.front();
    EXPECT_THAT(ended.err, Not(HasSubstr("internal error"))) << args.front();
    return ended.err;
  };
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"--version"},
                                             {"--exit-codes"},
                                             {"--help"},
                                             {"init"},
                                             {"completion", "bash"},
                                             {"validate", "job.yaml"},
                                             {"render", "job.yaml"},
                                             {"render", "many.yaml"},  // more than stdio keeps
                                             {"convert", "tfjob.yaml"},
                                             {"run", "job.yaml"}}) {
    run(args, 1);
  }
  EXPECT_THAT(run({"run", "job.yaml", "--output", "json"}, 1),
              HasSubstr("No space left on device"));
  run({"run", "failing.yaml", "--output", "json"}, 3);
}

// As under systemd, or a Python program that ignores SIGPIPE.
TEST(MainTest, AVerbThatAReaderLeavesSaysSo) {
  const TempDirectory folder;
  WriteTextFile(folder.At("many.yaml"), testing::ShellJob("job", 100, "exit 0"));
  testing::Program program(folder.path(), {"render", "many.yaml"}, [] {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    if (pipe(ends) != 0) _exit(99);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
  });
  const testing::Ended ended = program.Wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.err, "lockstep: nobody reads the output any more\n");
}

// `logs --all` has a connection for each pod.
TEST(MainTest, RaisesItsLimitOfDescriptors) {
  const testing::FakeCluster cluster(
      [](const lockstep::testing::FakeHttpServer::Request&,
         lockstep::testing::FakeHttpServer::Connection& connection) { connection.AwaitClose(); });
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit low{before.rlim_max - 1, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const testing::Program program("/", {"logs", "j", "--kubeconfig", cluster.kubeconfig()});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(testing::Eventually([&] {
    rlimit now{};
    return prlimit(program.pid(), RLIMIT_NOFILE, nullptr, &now) == 0 &&
           now.rlim_cur == before.rlim_max;
  }));
}

}  // namespace
}  // namespace lockstep::cli
