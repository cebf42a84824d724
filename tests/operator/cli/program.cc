#include "tests/operator/cli/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include "tests/support/folders.h"

namespace lockstep::testing {

nlohmann::json Ended::Report() const {
  const nlohmann::json report = nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false);
  return report.is_object() ? report : nlohmann::json::object();
}

Program::Program(const std::string& folder, const std::vector<std::string>& args,
                 const std::function<void()>& prepare) {
  std::vector<std::string> words = {LOCKSTEP_BINARY_DIR "/lockstep"};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = output_.At("out"), err = output_.At("err");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) return;
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
  // A shell without job control, or nohup, may have started the test with some of them ignored.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
  prepare();
  if (chdir(folder.c_str()) == 0) execv(argv[0], argv.data());
  _exit(126);
}

Program::~Program() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Program::Signal(int signal) const {
  kill(pid_, signal);
}

Ended Program::Wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status),
          ReadTextFile(output_.At("out")), ReadTextFile(output_.At("err"))};
}

Ended RunProgram(const std::string& folder, const std::vector<std::string>& args) {
  return Program(folder, args).Wait();
}

std::string ShellJob(const std::string& name, int workers, const std::string& script) {
  const nlohmann::json container = {
      {"name", "main"},
      {"image", "none"},
      {"command", {"sh", "-c", script}},
      {"volumeMounts", {{{"name", "scratch"}, {"mountPath", "/scratch"}}}}};
  nlohmann::json job = {{"apiVersion", "training.lockstep.dev/v1"},
                        {"kind", "TrainingJob"},
                        {"metadata", {{"name", name}}}};
  nlohmann::json& worker = job["spec"]["replicaSpecs"]["Worker"];
  worker["replicas"] = workers;
  worker["restartPolicy"] = "ExitCode";
  worker["template"]["spec"]["containers"] = {container};
  worker["template"]["spec"]["volumes"] = {
      {{"name", "scratch"}, {"emptyDir", nlohmann::json::object()}}};
  return job.dump();
}

}  // namespace lockstep::testing
