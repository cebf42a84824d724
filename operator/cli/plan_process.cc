#include "operator/cli/plan_process.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "api/v1/names.h"
#include "api/v1/quantity.h"
#include "base/descriptor.h"
#include "base/launch.h"
#include "base/status.h"
#include "operator/controller/children/addresses.h"
#include "operator/controller/children/render.h"
#include "operator/controller/state/main_container.h"
#include "operator/local/cpu_shares.h"
#include "operator/local/process_kubelet.h"
#include "operator/local/volumes.h"

namespace lockstep::cli {
namespace {

using kube::Object;
using Json = nlohmann::ordered_json;

constexpr char kTrainer[] = "lockstep-trainer";

// The pods that train; the leading one is the first.
std::vector<Object> TrainingPods(const api::TrainingJob& job) {
  std::vector<Object> pods;
  for (Object& object : controller::RenderObjects(job, controller::DnsAddresses())) {
    const std::string role = object["metadata"]["labels"].value(api::kLabelRole, "");
    if (object.value("kind", "") != "Pod") continue;
    if (role == api::RoleName(api::Role::kChief) || role == api::RoleName(api::Role::kWorker)) {
      pods.push_back(std::move(object));
    }
  }
  return pods;
}

// Nullopt: the pod's main container has no limit of this resource.
absl::StatusOr<std::optional<double>> LimitOf(const Object& pod, const char* resource) {
  const Object& container = *controller::FindMainContainer(pod);
  const Object::json_pointer where(fmt::format("/resources/limits/{}", resource));
  if (!container.contains(where)) return std::nullopt;
  LOCKSTEP_ASSIGN_OR_RETURN(const double limit, api::ParseQuantity(container[where]));
  return limit;
}

absl::StatusOr<std::optional<std::int64_t>> SmallestMemory(const std::vector<Object>& pods) {
  std::optional<std::int64_t> smallest;
  for (const Object& pod : pods) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> limit, LimitOf(pod, "memory"));
    if (!limit) continue;
    const auto bytes = static_cast<std::int64_t>(*limit);
    smallest = std::min(smallest.value_or(bytes), bytes);
  }
  return smallest;
}

// Of a replica: the pod's limit, or the cores that `run` would give to the pod.
absl::StatusOr<int> ThreadsOf(const std::vector<Object>& pods, int processes) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<double> limit, LimitOf(pods.front(), "cpu"));
  double cores = limit ? std::ceil(*limit) : 0;
  if (!limit) {
    local::CpuShares shares(local::PermittedCpus(), static_cast<int>(pods.size()));
    cores = static_cast<double>(shares.Take("pod", std::nullopt).size());
  }
  return std::clamp(static_cast<int>(cores) / processes, 1, 1024);
}

// A volume that is no folder of this machine hides the data set, which the trainer reports.
local::PathMap PathsOf(const Object& pod, const PlanRequest& request, const std::string& folder) {
  const auto locations = local::LocateVolumes(pod, {request.work_dir, folder, request.volumes});
  if (!locations.ok()) return {};
  return local::MapMounts(*controller::FindMainContainer(pod), *locations)
      .value_or(local::PathMap());
}

// A plan belongs to no group, so it needs no token.
Environment EnvironmentOf(const Object& pod, const local::PathMap& paths,
                          const local::HostFacts& host) {
  Environment env = host.env;
  std::erase_if(env, [](const auto& entry) {
    return entry.first.starts_with("LOCKSTEP_") || entry.first == api::kEnvTfConfig;
  });
  for (const Object& variable : controller::FindMainContainer(pod)->value("env", Object::array())) {
    if (!variable.contains("value")) continue;
    env[variable.value("name", "")] = paths.Rewrite(variable.value("value", ""));
  }
  env.erase(api::kEnvTokenFile);
  std::string& path = env["PATH"];
  path = host.program_dir + ":" + (path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path);
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
  LOCKSTEP_ASSIGN_OR_RETURN(spec.program, FindProgram(spec.argv.front(), spec.env));
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  LOCKSTEP_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  spec.stdio = {-1, output.write.fd(), errors.write.fd()};
  LOCKSTEP_ASSIGN_OR_RETURN(const pid_t trainer, Launch(spec));
  output.write.Close();
  errors.write.Close();
  std::string messages;
  std::jthread reader([&] { messages = ReadAll(errors.read.fd()); });
  const std::string text = ReadAll(output.read.fd());
  reader.join();
  messages = MessagesOf(messages);
  const int status = WaitFor(trainer);
  if (status != 0) {
    return absl::InvalidArgumentError(
        messages.empty() ? fmt::format("{} plan: {}", kTrainer, DescribeExit(status)) : messages);
  }
  if (!messages.empty()) fmt::print(stderr, "{}\n", messages);
  Json plan = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (plan.is_object()) return plan;
  return absl::InternalError(fmt::format("{} plan: found no JSON on its stdout", kTrainer));
}

}  // namespace

absl::StatusOr<Json> AskForPlan(const PlanRequest& request) {
  const std::vector<Object> pods = TrainingPods(request.job);
  const Object& pod = pods.front();
  const local::HostFacts host = local::ThisHost();
  LaunchSpec spec{.argv = {kTrainer, "plan"},
                  .env = EnvironmentOf(pod, PathsOf(pod, request, host.current_dir), host),
                  .dies_with_thread = true};
  const int processes = std::max(1, std::atoi(spec.env[api::kEnvProcessesPerPod].c_str()));
  LOCKSTEP_ASSIGN_OR_RETURN(const int threads, ThreadsOf(pods, processes));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<std::int64_t> memory, SmallestMemory(pods));
  spec.argv.push_back(fmt::format("--threads={}", threads));
  if (memory) spec.argv.push_back(fmt::format("--pod-limit={}", *memory));
  spec.argv.insert(spec.argv.end(), request.arguments.begin(), request.arguments.end());
  return RunTrainer(std::move(spec));
}

}  // namespace lockstep::cli
