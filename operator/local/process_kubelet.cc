#include "operator/local/process_kubelet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "api/v1/gpus.h"
#include "api/v1/names.h"
#include "api/v1/training_job.h"
#include "base/launch.h"
#include "base/log.h"
#include "base/status.h"
#include "operator/local/pod_checks.h"
#include "operator/local/server_rules.h"

namespace lockstep::local {
namespace {

using kube::Object;

std::string FolderOfProgram() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/usr/bin" : program.parent_path().string();
}

// The owner of cores and GPUs that a container does not share with others of its pod.
std::string OwnerOf(const std::string& pod_uid, const std::string& container) {
  return fmt::format("{}/{}", pod_uid, container);
}

template <typename Part>
void AddNew(const std::vector<Part>& parts, std::vector<Part>& all) {
  for (const Part& part : parts) {
    if (std::ranges::find(all, part) == all.end()) all.push_back(part);
  }
}

}  // namespace

HostFacts ThisHost() {
  HostFacts host;
  host.env = CurrentEnvironment();
  host.program_dir = FolderOfProgram();
  host.current_dir = std::filesystem::current_path().string();
  return host;
}

std::vector<int> PermittedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

ProcessKubelet::ProcessKubelet(MemoryClient& client, const LocalAddresses& addresses,
                               const Clock& clock, KubeletOptions options)
    : client_(client),
      addresses_(addresses),
      clock_(clock),
      options_(std::move(options)),
      cpus_(options_.cpus, options_.expected_pods, options_.use.get()),
      gpus_(options_.gpus, options_.use.get()) {}

ProcessKubelet::~ProcessKubelet() {
  if (!thread_.joinable()) return;
  KillAll();
  Join();
}

void ProcessKubelet::Start() {
  thread_ = std::thread([this] { Loop(); });
  watch_ = std::jthread([this](std::stop_token stop) { WatchLoop(std::move(stop)); });
}

void ProcessKubelet::Post(std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(action));
  }
  processes_.Wake();
}

void ProcessKubelet::Shutdown() {
  Post([this] {
    stopping_ = true;
    for (auto& [uid, pod] : pods_) pod.runner->Terminate(pod.runner->plan().grace);
  });
}

void ProcessKubelet::KillAll() {
  Post([this] {
    stopping_ = true;
    for (auto& [uid, pod] : pods_) pod.runner->Terminate(Duration(0));
  });
}

void ProcessKubelet::Join() {
  if (thread_.joinable()) thread_.join();
  if (watch_.joinable()) {
    watch_.request_stop();
    watch_.join();
  }
}

void ProcessKubelet::WatchLoop(std::stop_token stop) {
  while (!stop.stop_requested()) {
    // With an empty version, the watch begins with all existing pods.
    const absl::Status status =
        client_.Watch(kube::kPodKind, {}, stop, [this](kube::WatchEvent event) {
          Post([this, event = std::move(event)] { OnPod(event); });
        });
    // The history no longer contains our version: find the pods that were deleted meanwhile.
    if (absl::IsOutOfRange(status)) {
      Post([this] {
        std::vector<std::string> lost;
        for (const auto& [uid, pod] : pods_) {
          const auto now = client_.Get(kube::kPodKind, pod.key);
          if (!now.ok() || kube::Uid(*now) != uid) lost.push_back(uid);
        }
        for (const std::string& uid : lost) OnDeleted(uid);
      });
    } else if (!status.ok()) {
      LogError("watch of pods failed", {{"error", std::string(status.message())}});
      return;
    }
  }
}

void ProcessKubelet::Loop() {
  while (true) {
    std::vector<std::function<void()>> actions;
    {
      const std::lock_guard lock(mutex_);
      actions.swap(mailbox_);
    }
    for (const auto& action : actions) action();
    for (auto& [uid, pod] : pods_) pod.runner->Advance();
    Settle();
    const bool idle = std::none_of(pods_.begin(), pods_.end(), [](const auto& entry) {
      return entry.second.runner->HasProcesses();
    });
    if (stopping_ && idle) return;
    for (const ProcessExit& exit : processes_.Poll(NextDeadline())) {
      for (auto& [uid, pod] : pods_) {
        if (pod.runner->Owns(exit.pid)) pod.runner->OnExit(exit);
      }
    }
  }
}

void ProcessKubelet::OnPod(const kube::WatchEvent& event) {
  if (event.type == kube::WatchEvent::Type::kBookmark) return;
  const Object& pod = event.object;
  if (pod["spec"].value("nodeName", "") != options_.node_name) return;
  const std::string uid = kube::Uid(pod);
  if (event.type == kube::WatchEvent::Type::kDeleted) {
    OnDeleted(uid);
    return;
  }
  if (!pods_.contains(uid)) AddPod(pod);
  const auto it = pods_.find(uid);
  if (it == pods_.end() || !kube::IsBeingDeleted(pod) || it->second.deleting) return;
  it->second.deleting = true;
  it->second.runner->Terminate(
      std::chrono::seconds(GraceMember(pod["metadata"], "deletionGracePeriodSeconds")));
}

// The pod is gone from the API server without our confirmation, so no grace period applies.
void ProcessKubelet::OnDeleted(const std::string& uid) {
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  it->second.gone = true;
  it->second.runner->Terminate(Duration(0));
}

void ProcessKubelet::AddPod(const Object& pod) {
  if (stopping_) return;
  const std::string phase = pod.value("status", Object::object()).value("phase", "");
  if (phase == "Succeeded" || phase == "Failed") return;
  Pod entry;
  entry.key = kube::KeyOf(pod);
  entry.runner = std::make_unique<PodRunner>(MakePlan(pod), processes_, clock_, options_.backoff);
  pods_.emplace(kube::Uid(pod), std::move(entry));
}

PodPlan ProcessKubelet::MakePlan(const Object& pod) {
  const kube::Key key = kube::KeyOf(pod);
  const Object& spec = pod["spec"];
  PodPlan plan;
  plan.name = key.name;
  plan.log_folder = options_.volumes.work_dir + "/logs";
  plan.ip = addresses_.OfPod(key.namespace_name + "/" + key.name).host;
  plan.restart_policy = spec.value("restartPolicy", "Always");
  plan.grace = std::chrono::seconds(GraceMember(spec, "terminationGracePeriodSeconds"));
  Object told = pod;
  told["status"]["podIP"] = plan.ip;
  told["status"]["hostIP"] = "127.0.0.1";

  auto locations = LocateVolumes(pod, options_.volumes);
  absl::Status filled = locations.status();
  if (filled.ok()) filled = FillVolumes(pod, options_.volumes, *locations, client_);
  const auto message_path = [&](const Object& container) {
    return fmt::format("{}/{}/.termination-{}", plan.log_folder, plan.name,
                       container.value("name", ""));
  };
  const auto process_of = [&](const Object& container) -> absl::StatusOr<ProcessSpec> {
    LOCKSTEP_RETURN_IF_ERROR(filled);
    LOCKSTEP_RETURN_IF_ERROR(CpuLimit(pod, container).status());
    LOCKSTEP_ASSIGN_OR_RETURN(PathMap paths, MapMounts(container, *locations));
    std::string told_path = kube::TextMember(container, "terminationMessagePath");
    if (told_path.empty()) told_path = api::kTerminationMessagePath;  // as in Kubernetes
    paths.Add(told_path, message_path(container));
    if (options_.links) {
      LOCKSTEP_RETURN_IF_ERROR(
          paths.UseLinks([this](const std::string& path) { return options_.links->To(path); }));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(ProcessSpec process,
                              MakeProcess(told, container, paths, options_.host, client_));
    process.env[api::kEnvTerminationMessagePath] = paths.Rewrite(told_path);
    process.marker =
        fmt::format("{}{}/{}/", options_.mark, kube::Uid(pod), container.value("name", ""));
    return process;
  };
  for (const char* list : {"initContainers", "containers"}) {
    for (const Object& container : spec.value(list, Object::array())) {
      const bool init = list == std::string("initContainers");
      plan.containers.push_back(
          {.name = container.value("name", ""),
           .image = container.value("image", ""),
           .process = process_of(container),
           .init = init,
           .sidecar = init && container.value("restartPolicy", "") == "Always",
           .message_path = message_path(container),
           .logs_as_message =
               container.value("terminationMessagePolicy", "") == "FallbackToLogsOnError",
           .parts = filled.ok() ? MountedParts(pod, container, *locations)
                                : std::vector<std::string>()});
    }
  }
  AssignShares(pod, plan);
  return plan;
}

// An init container runs before the pod's containers and so has what is theirs, as in Kubernetes:
// if it had cores and GPUs of its own, they would idle once it has ended. Sidecars run beside.
void ProcessKubelet::AssignShares(const Object& pod, PodPlan& plan) {
  std::vector<std::pair<const Object*, ContainerPlan*>> before;
  std::vector<int> cpus;  // of the containers, like `gpus`
  std::vector<std::string> gpus;
  int most_before = 0;  // the GPUs that an init container asks for
  auto planned = plan.containers.begin();
  for (const char* list : {"initContainers", "containers"}) {
    for (const Object& container : kube::ListMember(pod["spec"], list)) {
      ContainerPlan& one = *planned++;
      if (!one.process.ok()) continue;
      const int wanted = api::GpusOf(container);
      if (one.init && !one.sidecar) {
        before.emplace_back(&container, &one);
        most_before = std::max(most_before, wanted);
        continue;
      }
      one.process->cpus = CpusOf(pod, container);
      std::vector<std::string> taken;
      if (wanted > 0) {
        taken = gpus_.Take(OwnerOf(kube::Uid(pod), one.name), static_cast<std::size_t>(wanted));
      }
      SetGpus(pod, wanted, taken, *one.process);
      if (one.init) continue;
      AddNew(one.process->cpus, cpus);
      AddNew(taken, gpus);
    }
  }
  if (RunsOnAllCores(pod)) cpus.clear();
  gpus = gpus_.Before(std::move(gpus), kube::Uid(pod), static_cast<std::size_t>(most_before));
  for (const auto& [container, one] : before) {
    const auto limit = CpuLimit(pod, *container);
    one->process->cpus = RunsOnAllCores(pod) && !*limit ? cpus_.All() : cpus_.Before(cpus, *limit);
    const int wanted = api::GpusOf(*container);
    std::vector<std::string> first = gpus;
    first.resize(std::min(first.size(), static_cast<std::size_t>(wanted)));
    SetGpus(pod, wanted, first, *one->process);
  }
}

// Containers without a limit share their pod's cores.
std::vector<int> ProcessKubelet::CpusOf(const Object& pod, const Object& container) {
  const auto limit = CpuLimit(pod, container);
  const std::string uid = kube::Uid(pod);
  if (!limit.ok() || !*limit) {
    return RunsOnAllCores(pod) ? cpus_.All() : cpus_.Take(uid, std::nullopt);
  }
  return cpus_.Take(OwnerOf(uid, container.value("name", "")), *limit);
}

// Containers have GPUs of their own as long as there are enough of them. A job that asks for GPUs
// also runs where there is none: then the bundled trainer computes on the CPU, and other programs
// see to it themselves.
void ProcessKubelet::SetGpus(const Object& pod, int wanted, const std::vector<std::string>& gpus,
                             ProcessSpec& process) {
  if (wanted == 0) return;
  if (gpus.empty()) {
    process.env.erase(api::kEnvGpus);
  } else {
    process.env["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(gpus, ","));
    // The trainer's processes take turns where there are fewer than they ask for.
    if (process.env.contains(api::kEnvGpus)) {
      process.env[api::kEnvGpus] = std::to_string(gpus.size());
    }
  }
  if (std::ssize(gpus) < wanted && !has_said_that_gpus_lack_) {
    LogWarning(fmt::format("a pod asks for {} GPUs and this machine has {}", wanted, gpus.size()),
               {{"pod", kube::Name(pod)},
                {"trainer", gpus.empty() ? "computes on the CPU" : "shares them"}});
    has_said_that_gpus_lack_ = true;
  }
}

void ProcessKubelet::Settle() {
  for (auto it = pods_.begin(); it != pods_.end();) {
    auto& [uid, pod] = *it;
    if (!pod.gone) Report(uid, pod);
    const bool ended = !pod.runner->HasProcesses();
    const bool over = ended && (pod.gone || pod.deleting);
    const std::string phase = pod.runner->Phase();
    if (ended && (over || phase == "Succeeded" || phase == "Failed")) {
      cpus_.GiveBack(uid);
      gpus_.GiveBack(uid);
      for (const ContainerPlan& container : pod.runner->plan().containers) {
        const std::string owner = OwnerOf(uid, container.name);
        cpus_.GiveBack(owner);
        gpus_.GiveBack(owner);
      }
    }
    if (over && pod.deleting && !pod.gone) {
      // NotFound: somebody else has removed it, which is fine.
      const absl::Status confirmed = client_.ConfirmDeleted(pod.key, uid);
      if (!confirmed.ok() && !absl::IsNotFound(confirmed)) {
        LogError("cannot confirm a pod's deletion", {{"error", std::string(confirmed.message())}});
      }
    }
    it = over ? pods_.erase(it) : std::next(it);
  }
}

void ProcessKubelet::Report(const std::string& uid, Pod& pod) {
  const Object status = pod.runner->Status();
  std::string text = status.dump();
  while (text != pod.reported) {
    absl::StatusOr<Object> object = client_.Get(kube::kPodKind, pod.key);
    if (!object.ok() || kube::Uid(*object) != uid) return;  // the watch will report it
    (*object)["status"] = status;
    const absl::Status written = client_.UpdateStatus(kube::kPodKind, *object).status();
    if (absl::IsAborted(written)) continue;  // it has changed: read again
    if (!written.ok()) return;
    pod.reported = std::move(text);
    return;
  }
}

std::optional<SteadyTime> ProcessKubelet::NextDeadline() const {
  std::optional<SteadyTime> next;
  for (const auto& [uid, pod] : pods_) {
    const std::optional<SteadyTime> at = pod.runner->NextDeadline();
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

}  // namespace lockstep::local
