#include "operator/cli/local/plan_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "api/v1/names.h"
#include "base/descriptor.h"
#include "base/launch.h"
#include "base/printable.h"
#include "base/status.h"
#include "operator/cli/local/trainer_program.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/render.h"
#include "operator/controller/state/main_container.h"
#include "operator/controller/state/replicas.h"
#include "operator/local/cpu_shares.h"
#include "operator/local/pod_checks.h"
#include "operator/local/process_kubelet.h"
#include "operator/local/volumes.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using Json = nlohmann::ordered_json;

// The threads of a replica: the cores of the pod's limit on a cluster, for which a limit of memory
// stands; else those that `run` would give to the pod.
absl::StatusOr<int> ThreadsOf(const Object& pod, const api::TrainingJob& job, int processes) {
  const Object& container = *controller::FindMainContainer(pod);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto limit, local::CpuLimit(pod, container));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto memory, local::MemoryLimit(pod, container));
  std::int64_t cores = (limit.value_or(0) + 999) / 1000;
  if (!limit || !memory) {
    local::CpuShares shares(local::PermittedCpus(), local::PodsThatShareCores(job));
    cores = std::ssize(shares.Take("pod", limit));
  }
  return static_cast<int>(std::clamp<std::int64_t>(cores / processes, 1, 1024));
}

// The trainer's options about the pods of each role. Requires: `pods` is of FirstPods.
absl::StatusOr<std::vector<std::string>> RoleArguments(const std::vector<Object>& pods,
                                                       const api::TrainingJob& job) {
  std::vector<std::string> arguments;
  for (const Object& pod : pods) {
    const std::string role = kube::Label(pod, api::kLabelRole);
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::int64_t> limit,
                              local::MemoryLimit(pod, *controller::FindMainContainer(pod)));
    if (limit) arguments.push_back(fmt::format("--{}-limit={}", role, *limit));
  }
  arguments.push_back(
      fmt::format("--evaluators={}", controller::ReplicaCount(job, api::Role::kEvaluator)));
  return arguments;
}

absl::StatusOr<local::PathMap> PathsOf(const Object& pod, const local::VolumeOptions& volumes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto locations, local::LocateVolumes(pod, volumes));
  return local::MapMounts(*controller::FindMainContainer(pod), locations);
}

// What a plan reads of the pod's environment. The rest is not passed on: a file that is only
// planned must not choose a program or a library that this machine executes (PATH, LD_PRELOAD,
// LOCKSTEP_CUDA_PATH), or a file for a token.
constexpr std::string_view kPlannedVariables[] = {
    api::kEnvTfConfig, api::kEnvConfig,      api::kEnvStrategy, api::kEnvJob,
    api::kEnvRole,     api::kEnvIndex,       api::kEnvAttempt,  api::kEnvProcessesPerPod,
    api::kEnvGpus,     api::kEnvGraceSeconds};

Environment EnvironmentOf(const Object& pod, const local::PathMap& paths,
                          const local::HostFacts& host) {
  Environment env = TrainerEnvironment(host);
  std::erase_if(env, [](const auto& entry) {
    return entry.first.starts_with("LOCKSTEP_") || entry.first == api::kEnvTfConfig;
  });
  for (const Object& variable : controller::FindMainContainer(pod)->value("env", Object::array())) {
    const std::string name = variable.value("name", "");
    if (!variable.contains("value") || !std::ranges::count(kPlannedVariables, name)) continue;
    env[name] = paths.Rewrite(variable.value("value", ""));
  }
  return env;
}

std::string ReadAll(int fd) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t size = 0; (size = ::read(fd, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(size));
  }
  return text;
}

// Logs are objects in lines; a message of the plan is text.
std::string MessagesOf(const std::string& errors) {
  std::string messages;
  std::istringstream lines(errors);
  for (std::string line; std::getline(lines, line);) {
    const Json log = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (log.is_object()) line = log.value("message", line);
    messages += (messages.empty() ? "" : "\n") + line;
  }
  return messages;
}

absl::StatusOr<Json> RunTrainer(LaunchSpec spec) {
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  spec.stdio = {-1, output.write.fd(), errors.write.fd()};
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t trainer, LaunchTrainer(spec));
  output.write.Close();
  errors.write.Close();
  std::string messages;
  std::jthread reader([&] { messages = ReadAll(errors.read.fd()); });
  const std::string text = ReadAll(output.read.fd());
  reader.join();
  messages = MessagesOf(messages);
  const int status = WaitFor(trainer);
  if (IsRefusal(status) && !messages.empty()) return absl::InvalidArgumentError(messages);
  if (status != 0) {
    return absl::InternalError(fmt::format("{} plan: found {}, expected a plan{}{}", kTrainer,
                                           DescribeExit(status), messages.empty() ? "" : ": ",
                                           messages));
  }
  if (!messages.empty()) fmt::print(stderr, "{}\n", Printable(messages));
  Json plan = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (plan.is_object()) return plan;
  return absl::InternalError(fmt::format(
      "{} plan: found {} bytes on its stdout, expected a JSON object", kTrainer, text.size()));
}

}  // namespace

absl::StatusOr<Json> AskForPlan(const PlanRequest& request) {
  const std::vector<Object> pods = controller::FirstPods(request.job, controller::DnsAddresses());
  const local::HostFacts host = local::ThisHost();
  const local::VolumeOptions volumes{request.work_dir, host.current_dir, request.volumes,
                                     local::ClaimsOf(pods)};
  LOCKSTEP_RETURN_IF_ERROR(local::CheckPods(pods, volumes));
  const Object& pod = controller::LeadingPod(pods);
  LOCKSTEP_ASSIGN_OR_RETURN(const local::PathMap paths, PathsOf(pod, volumes));
  LaunchSpec spec{
      .argv = {kTrainer, "plan"}, .env = EnvironmentOf(pod, paths, host), .dies_with_thread = true};
  const int processes = std::max(1, std::atoi(spec.env[api::kEnvProcessesPerPod].c_str()));
  LOCKSTEP_ASSIGN_OR_RETURN(const int threads, ThreadsOf(pod, request.job, processes));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> of_roles,
                            RoleArguments(pods, request.job));
  spec.argv.push_back(fmt::format("--threads={}", threads));
  spec.argv.insert(spec.argv.end(), of_roles.begin(), of_roles.end());
  spec.argv.insert(spec.argv.end(), request.arguments.begin(), request.arguments.end());
  return RunTrainer(std::move(spec));
}

}  // namespace lockstep::cli
