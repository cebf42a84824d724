// Tests `lockstep run` from outside: the program, its pods' processes and what it leaves behind.
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/descriptor.h"
#include "tests/operator/cli/program.h"
#include "tests/support/eventually.h"

namespace lockstep::cli {
namespace {

using testing::Ended;
using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Program;
using testing::RunProgram;
using testing::ShellJob;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// The training section of a job that has the test's own command.
constexpr char kTraining[] =
    R"(spec.training={"model": {"name": "mlp"}, "dataset": {"format": "synthetic"}, )"
    R"("batchSize": {"global": 8}, "steps": 5})";

// A dead process that its new parent has not waited for does not count.
bool Lives(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  std::string stat;
  std::ifstream file(path);
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) != "Z";
}

class RunCommandTest : public ::testing::Test {
 protected:
  void WriteJob(int workers, const std::string& script) {
    WriteTextFile(folder_.At("job.yaml"), ShellJob("job", workers, script));
  }
  std::vector<std::string> JsonIn(const std::string& work_dir,
                                  std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"run", "job.yaml", "--work-dir", work_dir, "--output", "json"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Ended Run(const std::vector<std::string>& args) const { return RunProgram(folder_.path(), args); }
  std::string Scratch(const std::string& name, const std::string& work_dir = "w") const {
    return folder_.At(work_dir + "/volumes/scratch/" + name);
  }
  bool Exists(const std::string& path) const { return fs::exists(path); }
  // Makes the stream a pipe whose reader has ended.
  static void Unread(int stream) {
    const auto pipe = MakePipe();
    dup2(pipe->write.fd(), stream);
  }
  nlohmann::json ReportOf(const std::string& work_dir) const {
    return nlohmann::json::parse(ReadTextFile(folder_.At(work_dir + "/report.json")));
  }
  pid_t PidIn(const std::string& path) const { return std::stoi(ReadTextFile(path)); }
  // The end of a script whose pods must overlap: one that has ended gives its cores and GPUs to the
  // next.
  std::string UntilBothRun() const {
    const std::string began = folder_.At("began");
    return "; mktemp " + began + ".XXXXXX > /dev/null; until [ $(ls " + began +
           ".* | wc -l) -ge 2 ]; do sleep 0.01; done";
  }

  TempDirectory folder_;
};

TEST_F(RunCommandTest, SucceedsWhenItsPodsDo) {
  WriteJob(2, "echo worker $LOCKSTEP_INDEX says $TF_CONFIG");
  const Ended ended = Run(JsonIn("w"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  const auto report = ended.Report();
  EXPECT_EQ(report["state"], "Succeeded");
  EXPECT_EQ(report["restarts"], 0);
  EXPECT_EQ(report["work_dir"], "w");
  for (const char* key : {"steps", "loss", "accuracy", "test_accuracy", "images_per_second",
                          "checkpoint", "failure"}) {
    EXPECT_TRUE(report.contains(key) && report[key].is_null()) << key;
  }
  // The job succeeds with worker 0, without waiting for worker 1's output.
  EXPECT_THAT(ReadTextFile(folder_.At("w/logs/job-worker-0/0.log")),
              StartsWith("worker 0 says {\"cluster\":{\"worker\":[\"127."));
}

TEST_F(RunCommandTest, RunsAJobThatAClusterLeavesToAnotherController) {
  WriteJob(1, "true");
  const Ended ended =
      Run(JsonIn("w", {"--set", "spec.managedBy=kueue.x-k8s.io/multikueue", "--timeout", "60"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

// As a kubelet, which makes it when the container starts.
TEST_F(RunCommandTest, TheViewHasNoVariablesOrArguments) {
  auto job = nlohmann::json::parse(ShellJob("job", 1, "test $KEY = very-secret"));
  job["metadata"]["annotations"] = {{"was", "very-secret"}};
  nlohmann::json& pod = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
  nlohmann::json& main = pod["containers"][0];
  main["env"] = {{{"name", "KEY"}, {"value", "very-secret"}}};
  pod["initContainers"] = {{{"name", "first"},
                            {"image", "none"},
                            {"command", {"true", "very-secret"}},
                            {"args", {"very-secret"}}}};
  WriteTextFile(folder_.At("job.yaml"), job.dump());
  EXPECT_EQ(Run(JsonIn("w")).code, 0);
  const std::string view = ReadTextFile(folder_.At("w/view.json"));
  EXPECT_THAT(view, HasSubstr(R"("replicas":1)"));
  EXPECT_THAT(view, Not(HasSubstr("very-secret")));
}

TEST_F(RunCommandTest, AnInitContainerMayMakeThePartOfAVolumeThatAnotherMounts) {
  nlohmann::json job = nlohmann::json::parse(ShellJob("job", 1, "cat /etc/app.yaml && cd /new"));
  nlohmann::json& spec = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
  spec["initContainers"] = {
      {{"name", "write"},
       {"image", "none"},
       {"command", {"sh", "-c", "[ ! -e /scratch/new ] && echo written > /scratch/app.yaml"}},
       {"volumeMounts", {{{"name", "scratch"}, {"mountPath", "/scratch"}}}}}};
  spec["containers"][0]["volumeMounts"] = {
      {{"name", "scratch"}, {"mountPath", "/etc/app.yaml"}, {"subPath", "app.yaml"}},
      {{"name", "scratch"}, {"mountPath", "/new"}, {"subPath", "new"}}};
  WriteTextFile(folder_.At("job.yaml"), job.dump());
  const Ended ended = Run(JsonIn("w", {"--timeout", "60"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
}

TEST_F(RunCommandTest, TheReportHasTheLastWordsOfAnInitContainer) {
  nlohmann::json job = nlohmann::json::parse(ShellJob("job", 1, "exit 0"));
  job["spec"]["runPolicy"]["backoffLimit"] = 0;
  job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["initContainers"] = {
      {{"name", "fetch"},
       {"image", "none"},
       {"command", {"sh", "-c", "echo access denied to bucket >&2; exit 4"}}}};
  WriteTextFile(folder_.At("job.yaml"), job.dump());
  const Ended ended = Run(JsonIn("w", {"--timeout", "60"}));
  EXPECT_NE(ended.code, 0);
  EXPECT_EQ(ended.Report()["failure"]["message"],
            "init container fetch of worker-0 exited with code 4: access denied to bucket\n");
}

TEST_F(RunCommandTest, FailsWithTheCodeOfTheReplica) {
  WriteJob(1, "exit 3");
  const Ended ended = Run(JsonIn("w"));
  EXPECT_EQ(ended.code, 3);
  const auto report = ended.Report();
  EXPECT_EQ(report["state"], "Failed");
  EXPECT_EQ(report["failure"]["role"], "worker");
  EXPECT_EQ(report["failure"]["exit_code"], 3);
}

TEST_F(RunCommandTest, ARetryableExitIsTriedAgain) {
  WriteJob(1, "[ -e /scratch/tried ] || { touch /scratch/tried; exit 143; }");
  const Ended ended = Run(JsonIn("w"));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.Report()["restarts"], 1);
  EXPECT_TRUE(Exists(folder_.At("w/logs/job-worker-0/1.log")));
}

TEST_F(RunCommandTest, ARestartIsExplainedByTheLastWords) {
  WriteJob(1,
           "[ -e /scratch/tried ] || "
           "{ touch /scratch/tried; printf 'Traceback:\\n 10 %%\\rboom: 1\\n\\n'; exit 143; }");
  const Ended ended = Run({"run", "job.yaml", "--work-dir", "w"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("  worker-0: boom: 1\n"));
  EXPECT_TRUE(ReportOf("w")["failure"].is_null()) << "the job has succeeded";
}

// An init container might have made the program, so the run is not refused.
TEST_F(RunCommandTest, SaysWhyAProgramCannotBeStarted) {
  nlohmann::json job = nlohmann::json::parse(ShellJob("job", 1, ""));
  nlohmann::json& worker = job["spec"]["replicaSpecs"]["Worker"];
  worker["restartPolicy"] = "OnFailure";
  nlohmann::json& spec = worker["template"]["spec"];
  spec["containers"][0]["command"] = {"no-such-program"};
  spec["initContainers"] = {
      {{"name", "first"},
       {"image", "none"},
       {"command", {"sh", "-c", "[ -e /scratch/up ] && touch /scratch/again; touch /scratch/up"}},
       {"volumeMounts", {{{"name", "scratch"}, {"mountPath", "/scratch"}}}}}};
  WriteTextFile(folder_.At("job.yaml"), job.dump());
  Program program(folder_.path(), {"run", "job.yaml", "--work-dir", "w"});
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("again")); }));
  program.Signal(SIGINT);
  const Ended ended = program.Wait();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("  worker-0: command not found: no-such-program\n"));
  EXPECT_THAT(ended.out, HasSubstr("The last failure: worker 0 ended with exit code 127 "
                                   "(StartError)\ncommand not found: no-such-program\n"));
  EXPECT_EQ(ReportOf("w")["state"], "Interrupted");
  EXPECT_EQ(ReportOf("w")["failure"]["message"], "command not found: no-such-program");
  EXPECT_EQ(ReadTextFile(folder_.At("w/logs/job-worker-0/0-main.log")),
            "lockstep: command not found: no-such-program\n");
}

TEST_F(RunCommandTest, TheTrainersLastWordIsInTheReport) {
  WriteJob(1, R"(echo '{"step":5,"totalSteps":5,"testAccuracy":0.75,"examplesPerSecond":1000}' )"
              R"(> $LOCKSTEP_TERMINATION_MESSAGE_PATH)");
  const Ended ended = Run(JsonIn("w", {"--set", kTraining}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.Report()["steps"], 5);
  EXPECT_EQ(ended.Report()["test_accuracy"], 0.75);
  EXPECT_EQ(ended.Report()["images_per_second"], 1000);
}

TEST_F(RunCommandTest, TheTerminationMessageMayBeWrittenAsOnACluster) {
  WriteJob(1, R"(echo '{"step":3}' > /dev/termination-log)");
  const std::string none =
      "spec.replicaSpecs.Worker.template.spec.containers[0].terminationMessagePath=\"\"";
  const Ended ended = Run(JsonIn("w", {"--set", kTraining, "--set", none, "--timeout", "60"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.Report()["steps"], 3);
}

TEST_F(RunCommandTest, AnInterruptLetsPodsSaveAndTheNextRunGoesOn) {
  WriteJob(1,
           "[ -e /scratch/saved ] && exit 0\n"
           "trap 'echo x > /scratch/saved; echo \"{\\\"step\\\":2}\" "
           "> $LOCKSTEP_TERMINATION_MESSAGE_PATH; exit 200' TERM\n"
           "touch /scratch/up; while :; do sleep 0.01; done");
  Program program(folder_.path(), JsonIn("w", {"--set", kTraining}));
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  program.Signal(SIGINT);
  const Ended ended = program.Wait();
  EXPECT_EQ(ended.code, 130) << ended.err;
  EXPECT_EQ(ended.Report()["state"], "Interrupted");
  EXPECT_EQ(ended.Report()["steps"], 2);
  EXPECT_TRUE(Exists(Scratch("saved")));
  EXPECT_EQ(Run(JsonIn("w")).code, 0);
}

TEST_F(RunCommandTest, ASecondInterruptKills) {
  WriteJob(1,
           "trap '' TERM; echo $$$$ > /scratch/pid; touch /scratch/up; while :; do sleep 1; done");
  Program program(folder_.path(), JsonIn("w"));
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  const pid_t pod = PidIn(Scratch("pid"));
  program.Signal(SIGINT);
  program.Signal(SIGTERM);
  const Ended ended = program.Wait();
  EXPECT_EQ(ended.code, 130);
  EXPECT_FALSE(Lives(pod)) << "process " << pod << " was left behind";
}

TEST_F(RunCommandTest, ASignalThatIsIgnoredDoesNotInterrupt) {
  WriteJob(1, "touch /scratch/up; until [ -e go ]; do sleep 0.01; done");
  Program program(folder_.path(), JsonIn("w"), [] {
    for (const int signal : {SIGHUP, SIGINT}) ::signal(signal, SIG_IGN);  // nohup lockstep run … &
  });
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  program.Signal(SIGHUP);
  program.Signal(SIGINT);
  WriteTextFile(folder_.At("go"), "");
  const Ended ended = program.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.Report()["state"], "Succeeded");
}

TEST_F(RunCommandTest, AnInterruptThatAlsoEndsTheReaderLetsPodsSave) {
  WriteJob(1,
           "trap 'touch /scratch/saved; exit 200' TERM; touch /scratch/up\n"
           "while :; do sleep 0.01; done");
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  Program program(folder_.path(), {"run", "job.yaml", "--work-dir", "w"},
                  [&] { dup2(pipe->write.fd(), STDOUT_FILENO); });
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  pipe->read.Close();  // as `| tee log` at Ctrl-C
  program.Signal(SIGINT);
  EXPECT_EQ(program.Wait().code, 130);
  EXPECT_TRUE(Exists(Scratch("saved")));
  EXPECT_EQ(ReportOf("w")["state"], "Interrupted");
}

TEST_F(RunCommandTest, StopsIfItsOutputIsReadNoMore) {
  WriteJob(1, "exec sleep 100");
  const Ended ended =
      Program(folder_.path(), {"run", "job.yaml", "--work-dir", "w", "--timeout", "60"}, [] {
        Unread(STDOUT_FILENO);
      }).Wait();
  EXPECT_EQ(ended.code, 130);
  EXPECT_THAT(ended.err, HasSubstr("nobody reads the output any more"));
  EXPECT_EQ(ReportOf("w")["state"], "Interrupted");
}

TEST_F(RunCommandTest, AReportThatNobodyReadsIsInTheWorkDirectory) {
  WriteJob(1, "exit 0");
  EXPECT_EQ(Program(folder_.path(), JsonIn("w"), [] { Unread(STDOUT_FILENO); }).Wait().code, 0);
  EXPECT_EQ(ReportOf("w")["state"], "Succeeded");
}

TEST_F(RunCommandTest, AFailureThatNobodyReadsHasItsExitCode) {
  EXPECT_EQ(
      Program(folder_.path(), {"run", "absent.yaml"}, [] { Unread(STDERR_FILENO); }).Wait().code,
      2);
}

TEST_F(RunCommandTest, KilledItLeavesNoProcessAndCanBeRunAgain) {
  WriteJob(1,
           "[ -e /scratch/up ] && exit 0\n"
           "setsid sh -c 'echo $$$$ > /scratch/daemon; touch /scratch/up; exec sleep 100' & wait");
  Program program(folder_.path(), JsonIn("w"));
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  const pid_t daemon = PidIn(Scratch("daemon"));
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait().code, -SIGKILL);
  EXPECT_EQ(Run(JsonIn("w")).code, 0);
  EXPECT_TRUE(Eventually([&] { return !Lives(daemon); }));
}

TEST_F(RunCommandTest, TimeIsUp) {
  WriteJob(1, "exec sleep 100");
  const Ended ended = Run(JsonIn("w", {"--timeout", "0.2"}));
  EXPECT_EQ(ended.code, 124);
  EXPECT_EQ(ended.Report()["state"], "TimedOut");
}

TEST_F(RunCommandTest, TwoAtATimeHaveTheirOwnFoldersAndAddresses) {
  WriteJob(1, "echo $TF_CONFIG > /scratch/config; until [ -e go ]; do sleep 0.01; done");
  Program first(folder_.path(), {"run", "job.yaml"});
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("config", "runs/job")); }));
  Program second(folder_.path(), {"run", "job.yaml"});
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("config", "runs/job.2")); }));
  WriteTextFile(folder_.At("go"), "");
  EXPECT_EQ(first.Wait().code, 0);
  const Ended ended = second.Wait();
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, HasSubstr("runs/job is in use"));
  EXPECT_NE(ReadTextFile(Scratch("config", "runs/job")),
            ReadTextFile(Scratch("config", "runs/job.2")));
}

TEST_F(RunCommandTest, AnotherRunsFolderIsRefusedByProcess) {
  WriteJob(1, "touch /scratch/up; until [ -e go ]; do sleep 0.01; done");
  Program first(folder_.path(), JsonIn("w"));
  ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up")); }));
  const Ended refused = Run(JsonIn("w"));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("process " + std::to_string(first.pid())));
  WriteTextFile(folder_.At("go"), "");
  EXPECT_EQ(first.Wait().code, 0);
}

TEST_F(RunCommandTest, AJobThatIsDoneStartsAfreshUnlessItsFolderIsNamed) {
  WriteJob(1, "ls /scratch; touch /scratch/mine");
  EXPECT_EQ(Run({"run", "job.yaml"}).code, 0);
  const Ended again = Run({"run", "job.yaml"});
  EXPECT_THAT(again.out, HasSubstr("runs/job.2: the job in runs/job has succeeded"));
  EXPECT_EQ(ReadTextFile(folder_.At("runs/job.2/logs/job-worker-0/0.log")), "");
  EXPECT_EQ(Run(JsonIn("runs/job")).code, 0);
  EXPECT_EQ(ReadTextFile(folder_.At("runs/job/logs/job-worker-0/1.log")), "mine\n");
}

TEST_F(RunCommandTest, SaysThatAJobGoesOnFromACheckpoint) {
  WriteJob(1, "exit 0");
  const std::vector<std::string> args = {
      "run",     "job.yaml", "--set",
      kTraining, "--set",    "spec.training.checkpoint={directory: /scratch/saved, everySteps: 1}"};
  EXPECT_THAT(Run(args).out, StartsWith("job job in runs/job\n"));
  EXPECT_TRUE(ReportOf("runs/job")["resumed_from"].is_null());
  fs::remove_all(folder_.At("runs"));

  const std::string saved = "runs/job/volumes/scratch/saved/";
  fs::create_directories(folder_.At(saved + "step-00000004"));
  WriteTextFile(folder_.At(saved + "step-00000004/manifest.json"), "{}");
  EXPECT_THAT(Run(args).out, StartsWith("job job in runs/job, from its checkpoint step-00000004 "
                                        "(--work-dir names another folder)\n"));
  EXPECT_EQ(ReportOf("runs/job")["resumed_from"], saved + "step-00000004");

  fs::create_directories(folder_.At(saved + "variant-0/step-00000008"));
  WriteTextFile(folder_.At(saved + "variant-0/step-00000008/manifest.json"), "{}");
  std::vector<std::string> alone = args;
  alone.insert(alone.end(), {"--set", "spec.strategy.type=Independent", "--work-dir", "runs/job"});
  EXPECT_THAT(Run(alone).out,
              StartsWith("job job in runs/job, from its checkpoint variant-0/step-00000008\n"));
}

TEST_F(RunCommandTest, SaysThatAProgramFindsTheVolumesOfTheLastRun) {
  WriteJob(1, "exit 3");
  EXPECT_THAT(Run({"run", "job.yaml"}).out, StartsWith("job job in runs/job\n"));
  EXPECT_THAT(Run({"run", "job.yaml"}).out,
              StartsWith("job job in runs/job, with the volumes of its last run "
                         "(--work-dir names another folder)\n"));
}

TEST_F(RunCommandTest, ALaterRunTakesNoFolderOfAnotherJob) {
  WriteJob(1, "ls /scratch; touch /scratch/mine");
  EXPECT_EQ(Run({"run", "job.yaml"}).code, 0);
  EXPECT_EQ(Run({"run", "job.yaml"}).code, 0);
  const Ended other = Run({"run", "job.yaml", "--set", "metadata.name=job-2"});
  EXPECT_THAT(other.out, HasSubstr("job job-2 in runs/job-2\n"));
  EXPECT_EQ(ReadTextFile(folder_.At("runs/job-2/logs/job-2-worker-0/0.log")), "");
}

TEST_F(RunCommandTest, PodsOfOneCoreGetDistinctCores) {
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  if (CPU_COUNT(&ours) < 2) GTEST_SKIP() << "needs two cores, and may use " << CPU_COUNT(&ours);
  WriteJob(2, "grep Cpus_allowed_list /proc/self/status" + UntilBothRun());
  const std::string limit =
      "spec.replicaSpecs.Worker.template.spec.containers[0].resources.limits.cpu=\"1\"";
  const Ended ended = Run(JsonIn("w", {"--set", limit, "--set", "spec.successPolicy=AllWorkers"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ReadTextFile(folder_.At("w/logs/job-worker-0/0.log")),
            ReadTextFile(folder_.At("w/logs/job-worker-1/0.log")));
}

// What they had would idle, while their pods' containers share what is left.
TEST_F(RunCommandTest, PodsWithInitContainersGetDistinctCoresAndGpus) {
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  if (CPU_COUNT(&ours) < 2) GTEST_SKIP() << "needs two cores, and may use " << CPU_COUNT(&ours);
  const std::string script = "grep Cpus_allowed_list /proc/self/status; echo $CUDA_VISIBLE_DEVICES";
  nlohmann::json job = nlohmann::json::parse(ShellJob("job", 2, script + UntilBothRun()));
  nlohmann::json& spec = job["spec"]["replicaSpecs"]["Worker"]["template"]["spec"];
  job["spec"]["successPolicy"] = "AllWorkers";  // else the first success ends the other pod
  const nlohmann::json limits = {{"cpu", "1"}, {"nvidia.com/gpu", 1}};
  spec["containers"][0]["resources"]["limits"] = limits;
  spec["initContainers"] = {{{"name", "free"}, {"image", "none"}, {"command", {"true"}}},
                            {{"name", "same"},
                             {"image", "none"},
                             {"command", {"sh", "-c", script}},
                             {"resources", {{"limits", limits}}}}};
  WriteTextFile(folder_.At("job.yaml"), job.dump());
  Program run(folder_.path(), JsonIn("w"), [] { setenv("CUDA_VISIBLE_DEVICES", "0,1", 1); });
  const Ended ended = run.Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  std::vector<std::string> used;
  for (const char* pod : {"job-worker-0", "job-worker-1"}) {
    const std::string logs = folder_.At(std::string("w/logs/") + pod);
    used.push_back(ReadTextFile(logs + "/0-main.log"));
    EXPECT_EQ(ReadTextFile(logs + "/0-same.log"), used.back());
  }
  const auto line_of = [&](std::size_t pod, int line) {
    std::istringstream lines(used[pod]);
    std::string text;
    for (int i = 0; i <= line; ++i) std::getline(lines, text);
    return text;
  };
  EXPECT_NE(line_of(0, 0), line_of(1, 0));
  EXPECT_NE(line_of(0, 1), line_of(1, 1));
}

// As in `for rate in …; do lockstep run … & done`.
TEST_F(RunCommandTest, RunsAtATimeUseDifferentCoresAndGpus) {
  cpu_set_t ours;
  ASSERT_EQ(sched_getaffinity(0, sizeof ours, &ours), 0);
  if (CPU_COUNT(&ours) < 2) GTEST_SKIP() << "needs two cores, and may use " << CPU_COUNT(&ours);
  fs::create_directory(folder_.At("runtime"));  // not that of other tests
  WriteJob(1,
           "grep Cpus_allowed_list /proc/self/status > /scratch/cpus; "
           "echo $CUDA_VISIBLE_DEVICES > /scratch/gpus; touch /scratch/up; "
           "until [ -e go ]; do sleep 0.01; done");
  const auto args = [&](const std::string& work_dir) {
    return JsonIn(work_dir, {"--set",
                             "spec.replicaSpecs.Worker.template.spec.containers[0].resources="
                             "{limits: {cpu: 1, nvidia.com/gpu: 1}}"});
  };
  const auto prepare = [&] {
    setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
    setenv("XDG_RUNTIME_DIR", folder_.At("runtime").c_str(), 1);
  };
  Program first(folder_.path(), args("a"), prepare), second(folder_.path(), args("b"), prepare);
  for (const char* run : {"a", "b"}) {
    ASSERT_TRUE(Eventually([&] { return Exists(Scratch("up", run)); })) << run;
  }
  WriteTextFile(folder_.At("go"), "");
  EXPECT_EQ(first.Wait().code, 0);
  EXPECT_EQ(second.Wait().code, 0);
  for (const char* file : {"cpus", "gpus"}) {
    EXPECT_NE(ReadTextFile(Scratch(file, "a")), ReadTextFile(Scratch(file, "b"))) << file;
  }
}

// A folder that a shell takes apart. Links by which it does not lie in `runtime`.
class OddFolderTest : public RunCommandTest {
 protected:
  OddFolderTest() {
    fs::create_directory(odd_);
    fs::create_directory(folder_.At("runtime"));
  }
  std::vector<std::string> Args() const {
    return {"run", "../job.yaml", "--work-dir", "w", "--output", "json"};
  }
  std::function<void()> Prepare() const {
    return [this] { setenv("XDG_RUNTIME_DIR", folder_.At("runtime").c_str(), 1); };
  }
  bool HasLinks() const {
    for (const auto& entry : fs::directory_iterator(folder_.At("runtime/lockstep"))) {
      if (entry.path().filename().string().starts_with("links-")) return true;
    }
    return false;
  }
  const std::string odd_ = folder_.At("my dir; $(touch x) 'y'");
};

TEST_F(OddFolderTest, CommandsActOnTheFilesThatTheyName) {
  WriteTextFile(folder_.At("job.yaml"),
                ShellJob("job", 1,
                         "echo in > /scratch/x && cat /scratch/x > /scratch/y && cp $OUT /scratch/z"
                         " && find /scratch -name x > /scratch/found && rm -rf /scratch/x"
                         " && echo bye > /dev/termination-log"));
  std::vector<std::string> args = Args();
  args.insert(args.end(), {"--set",
                           "spec.replicaSpecs.Worker.template.spec.containers[0].env="
                           "[{name: OUT, value: /scratch/y}]"});
  const Ended ended = Program(odd_, args, Prepare()).Wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  const std::string volume = odd_ + "/w/volumes/scratch";
  EXPECT_EQ(ReadTextFile(volume + "/y"), "in\n");
  EXPECT_EQ(ReadTextFile(volume + "/z"), "in\n");
  EXPECT_THAT(ReadTextFile(volume + "/found"), HasSubstr("/volumes/scratch/x\n"));
  EXPECT_FALSE(Exists(volume + "/x"));
  EXPECT_FALSE(HasLinks());
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                ::testing::AnyOf("job.yaml", "runtime", fs::path(odd_).filename().string()));
  }
}

TEST_F(OddFolderTest, AKilledRunLeavesNoLinks) {
  WriteTextFile(folder_.At("job.yaml"), ShellJob("job", 1, "touch /scratch/up; exec sleep 100"));
  Program program(odd_, Args(), Prepare());
  ASSERT_TRUE(Eventually([&] { return Exists(odd_ + "/w/volumes/scratch/up"); }));
  EXPECT_TRUE(HasLinks());
  program.Signal(SIGKILL);
  program.Wait();
  EXPECT_TRUE(Eventually([&] { return !HasLinks(); }));
}

// JSON, such as the trainer's configuration, cannot hold the name of the folder.
TEST_F(RunCommandTest, InAFolderThatIsNotUtf8CheckpointsAreWhereTheReportSays) {
  WriteJob(1, R"sh(
      directory='s/.*"checkpoint":{[^}]*"directory":"\([^"]*\)".*/\1/'
      checkpoint=$(echo "$LOCKSTEP_CONFIG" | sed "$directory")/step-00000001
      mkdir -p "$checkpoint" && echo {} > "$checkpoint/manifest.json")sh");
  const std::string work_dir = "caf\xe9";
  const Ended ended =
      Run(JsonIn(work_dir, {"--set", kTraining, "--set",
                            "spec.training.checkpoint={directory: /scratch/kept}"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(Exists(folder_.At(work_dir + "/volumes/scratch/kept/step-00000001/manifest.json")));
  EXPECT_THAT(ended.Report()["checkpoint"].dump(),
              HasSubstr("/volumes/scratch/kept/step-00000001"));
}

TEST_F(RunCommandTest, SetChangesTheJob) {
  WriteJob(1, "exit 1");
  EXPECT_EQ(
      Run(JsonIn("w", {"--set",
                       "spec.replicaSpecs.Worker.template.spec.containers[0].command[2]=exit 0"}))
          .code,
      0);
}

// It may be all that is left of a training that has ended.
TEST_F(RunCommandTest, ARefusedRunLeavesTheReportOfTheOneBefore) {
  WriteJob(1, "exit 2");
  const std::string typo = "spec.replicaSpec=1";
  const std::string lacks =
      "spec.replicaSpecs.Worker.template.spec.containers[0].envFrom=[{secretRef: {name: keys}}]";
  EXPECT_EQ(Run(JsonIn("w")).code, 2);
  for (const std::string& fault : {typo, lacks}) {
    EXPECT_EQ(Run(JsonIn("w", {"--set", fault})).code, 2);
    EXPECT_EQ(ReportOf("w")["state"], "Failed") << fault;
  }
  EXPECT_EQ(Run({"run", "job.yaml"}).code, 2);
  EXPECT_EQ(Run({"run", "job.yaml", "--set", lacks}).code, 2);
  EXPECT_EQ(ReportOf("runs/job")["state"], "Failed") << "nobody named the folder";
}

TEST_F(RunCommandTest, AVolumeCanBeAFolderOfTheUsers) {
  fs::create_directory(folder_.At("mine"));
  WriteTextFile(folder_.At("mine/input"), "in");
  WriteJob(1, "cat /scratch/input > /scratch/output");
  EXPECT_EQ(Run(JsonIn("w", {"--volume", "scratch=mine"})).code, 0);
  EXPECT_EQ(ReadTextFile(folder_.At("mine/output")), "in");
}

TEST_F(RunCommandTest, AnEmptyDirAndAClaimOfItsNameAreTwoVolumes) {
  WriteJob(1, "touch /scratch/kept; ls /other");
  const Ended ended = Run(
      JsonIn("w", {"--set",
                   "spec.replicaSpecs.Worker.template.spec.volumes=[{name: scratch, emptyDir: {}}, "
                   "{name: other, persistentVolumeClaim: {claimName: scratch}}]",
                   "--set",
                   "spec.replicaSpecs.Worker.template.spec.containers[0].volumeMounts="
                   "[{name: scratch, mountPath: /scratch}, {name: other, mountPath: /other}]"}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ReadTextFile(folder_.At("w/logs/job-worker-0/0.log")), "");
}

TEST_F(RunCommandTest, WhatCannotRunIsNamed) {
  WriteJob(1, "exit 0");
  const auto refused = [&](std::vector<std::string> more) {
    const Ended ended = Run(JsonIn("w", std::move(more)));
    EXPECT_EQ(ended.code, 2);
    EXPECT_EQ(ended.out, "");
    return ended.err;
  };
  EXPECT_THAT(refused({"--set", "spec.replicaSpec.Worker.replicas=2"}),
              HasSubstr("job.yaml: spec.replicaSpec: unknown field"));
  EXPECT_THAT(refused({"--set", "replicas"}), HasSubstr("--set replicas: expected PATH=VALUE"));
  EXPECT_THAT(refused({"--volume", "gone=/tmp"}), HasSubstr("it has: scratch"));
  EXPECT_THAT(refused({"--volume", "scratch=/no/such"}), HasSubstr("/no/such does not exist"));
  fs::create_symlink("loop", folder_.At("loop"));
  EXPECT_THAT(refused({"--volume", "scratch=loop"}), HasSubstr("loop cannot be looked up: Too"));
  EXPECT_THAT(refused({"--set",
                       "spec.replicaSpecs.Worker.template.spec.volumes=[{name: scratch, "
                       "nfs: {server: a, path: b}}]"}),
              HasSubstr("volume \"scratch\" is of type nfs"));
  EXPECT_THAT(Run({"run", "absent.yaml"}).err, HasSubstr("absent.yaml: the job cannot be read"));
}

// With the restart policy of most jobs, pods would be started again and again for it.
TEST_F(RunCommandTest, WhatNoRestartChangesIsRefusedBeforeAnyPodStarts) {
  WriteJob(1, "touch /scratch/started");
  const auto refused = [&](const std::string& field, const std::string& value) {
    const std::string spec = "spec.replicaSpecs.Worker.template.spec.";
    const Ended ended =
        Run(JsonIn("w", {"--set", "spec.replicaSpecs.Worker.restartPolicy=OnFailure", "--timeout",
                         "60", "--set", spec + field + "=" + value}));
    EXPECT_EQ(ended.code, 2) << field;
    EXPECT_EQ(ended.out, "");
    EXPECT_FALSE(Exists(Scratch("started")));
    return ended.err;
  };
  EXPECT_THAT(refused("containers[0].command", "[]"),
              StartsWith("job.yaml: pod job-worker-0: container main: no command: "));
  EXPECT_THAT(refused("containers[0].command", "[no-such-program]"),
              StartsWith("job.yaml: pod job-worker-0: container main: command not found: "
                         "no-such-program: "));
  EXPECT_THAT(refused("containers[0].workingDir", "/no/such"),
              HasSubstr("container main: workingDir: /no/such does not exist: "));
  EXPECT_THAT(refused("containers[0].envFrom", "[{secretRef: {name: keys}}]"),
              HasSubstr("container main: envFrom: no Secret \"keys\" in namespace default"));
  EXPECT_THAT(refused("containers[0].env",
                      "[{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodename}}}]"),
              HasSubstr("env A: fieldPath \"spec.nodename\" is not one of a pod's"));
  EXPECT_THAT(
      refused("volumes", "[{name: scratch, emptyDir: {}}, {name: c, configMap: {name: m}}]"),
      HasSubstr("pod job-worker-0: volume \"c\": no ConfigMap \"m\" in namespace default"));
  EXPECT_THAT(refused("volumes", "[{name: scratch, hostPath: {path: /no/such}}]"),
              HasSubstr("volume \"scratch\": hostPath /no/such does not exist"));
}

}  // namespace
}  // namespace lockstep::cli
