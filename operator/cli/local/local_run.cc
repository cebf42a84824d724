#include "operator/cli/local/local_run.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "base/status.h"
#include "operator/controller/children/render.h"
#include "operator/controller/state/kinds.h"
#include "operator/controller/state/main_container.h"
#include "operator/controller/state/observed.h"
#include "operator/controller/state/replicas.h"
#include "operator/local/pod_checks.h"

namespace lockstep::cli {
namespace {

using kube::Object;

constexpr char kNode[] = "local";
// Short, because a user is watching and there is only one job.
constexpr Duration kStatusInterval = std::chrono::milliseconds(200);
constexpr Duration kSettling = std::chrono::seconds(1);  // failures on one machine are seen at once
constexpr Duration kPollInterval = std::chrono::milliseconds(200);

kube::Kind CompanionKind(const Object& object) {
  const std::string kind = object.value("kind", "");
  if (kind == "ConfigMap") return local::kConfigMapKind;
  if (kind == "Secret") return kube::kSecretKind;
  return {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"};
}

controller::JobControllerOptions ControllerOptions(const std::string& namespace_name,
                                                   controller::JobTokens& tokens,
                                                   LocalReports* reports) {
  controller::JobControllerOptions options;
  options.namespaces = {namespace_name};
  options.workers = 1;
  options.instance = "lockstep-run";
  options.tokens = &tokens;
  options.settings.status_interval = kStatusInterval;
  options.settings.change_hold = Duration::zero();  // a look costs no server anything
  options.settings.settling = kSettling;
  if (reports != nullptr) {
    options.reports = &reports->reports();
    options.settings.progress_url = reports->url();
  }
  return options;
}

// As an operator that takes reports; but no socket is opened for a program that is not told of it.
bool MayReport(const api::TrainingJob& job) {
  return !job.spec.training && job.spec.job_token == api::TokenMount::kMounted;
}

progress::PollerOptions PollerSettings(const controller::JobTokens& tokens) {
  progress::PollerOptions options;
  options.interval = kPollInterval;
  options.token_of = [&tokens](const std::string& job_uid) { return tokens.For(job_uid); };
  return options;
}

// Variables can be secret, and a job's token is one of them.
Object WithoutProgram(const Object& pod) {
  const Object& spec = kube::Member(pod, "spec");
  Object containers = Object::array();
  for (const Object& container : kube::ListMember(spec, "containers")) {
    containers.push_back({{"name", kube::TextMember(container, "name")}});
  }
  return {
      {"metadata", kube::Member(pod, "metadata")},
      {"spec",
       {{"nodeName", kube::TextMember(spec, "nodeName")}, {"containers", std::move(containers)}}},
      {"status", kube::Member(pod, "status")}};
}

// The variables, arguments and commands in the job's templates may be secret, too. The rest of the
// templates may be shown.
Object WithoutPrograms(Object job) {
  // `kubectl apply` notes the whole manifest in an annotation.
  job["metadata"].erase("annotations");
  for (Object& role : job["spec"]["replicaSpecs"]) {
    if (!kube::Member(kube::Member(role, "template"), "spec").is_object()) continue;
    Object& spec = role["template"]["spec"];
    for (const char* kind : {"containers", "initContainers"}) {
      if (!spec.contains(kind)) continue;
      for (Object& container : spec[kind]) {
        for (const char* part : {"env", "args", "command", "lifecycle", "livenessProbe",
                                 "readinessProbe", "startupProbe"}) {
          if (container.is_object()) container.erase(part);
        }
      }
    }
  }
  return job;
}

// The same event with the names of fields that kCoreEventKind has.
Object AsCoreEvent(const Object& event) {
  Object core = {{"metadata", kube::Member(event, "metadata")},
                 {"involvedObject", kube::Member(event, "regarding")},
                 {"type", kube::TextMember(event, "type")},
                 {"reason", kube::TextMember(event, "reason")},
                 {"message", kube::TextMember(event, "note")}};
  for (const char* name : {"eventTime", "series"}) {
    if (event.contains(name)) core[name] = event[name];
  }
  return core;
}

}  // namespace

LocalRun::LocalRun(std::unique_ptr<local::LocalAddresses> addresses,
                   std::unique_ptr<LocalReports> reports, Inbox& inbox, const Clock& clock,
                   local::KubeletOptions kubelet, const std::string& namespace_name)
    : inbox_(inbox),
      addresses_(std::move(addresses)),
      client_(clock, {.history = 4096, .node_name = kNode}),
      tokens_(client_, clock, {namespace_name, "lockstep-run-key"}),
      poller_(PollerSettings(tokens_)),
      reports_(std::move(reports)),
      controller_(client_, *addresses_, poller_, clock,
                  ControllerOptions(namespace_name, tokens_, reports_.get())),
      kubelet_(client_, *addresses_, clock, std::move(kubelet)) {
  if (reports_) reports_->Connect(controller_, tokens_);
}

absl::StatusOr<std::unique_ptr<LocalRun>> LocalRun::Start(const JobFile& file,
                                                          const LocalRunOptions& options,
                                                          Inbox& inbox, const Clock& clock) {
  const api::TrainingJob job = api::WithDefaults(file.job);
  LOCKSTEP_ASSIGN_OR_RETURN(auto addresses, local::LocalAddresses::OpenDefault());
  LOCKSTEP_RETURN_IF_ERROR(addresses->ReserveAll(job));
  const std::vector<Object> pods = controller::FirstPods(job, *addresses);

  local::KubeletOptions kubelet;
  kubelet.node_name = kNode;
  kubelet.mark = options.mark;
  kubelet.host = local::ThisHost();
  kubelet.host.pod_hosts = addresses->Hosts();
  kubelet.volumes = {options.work_dir, kubelet.host.current_dir, options.volumes,
                     local::ClaimsOf(pods)};
  kubelet.cpus = local::PermittedCpus();
  // To look for them wakes GPUs that sleep.
  if (local::AsksForGpus(pods)) {
    kubelet.gpus = local::PermittedGpus(std::getenv("CUDA_VISIBLE_DEVICES"));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(auto use, local::MachineUse::Open(addresses->lock_dir()));
  kubelet.use = std::make_shared<local::MachineUse>(std::move(use));
  kubelet.links = std::make_shared<local::PlainLinks>(options.links);
  kubelet.expected_pods = local::PodsThatShareCores(job);
  LOCKSTEP_RETURN_IF_ERROR(InFile(file.source, local::CheckPods(pods, kubelet.volumes)));

  std::unique_ptr<LocalReports> reports;
  if (MayReport(job)) {
    LOCKSTEP_ASSIGN_OR_RETURN(reports, LocalReports::Open(clock));
  }
  std::unique_ptr<LocalRun> run(new LocalRun(std::move(addresses), std::move(reports), inbox, clock,
                                             kubelet, job.metadata.namespace_name));
  LOCKSTEP_RETURN_IF_ERROR(run->CreateCompanions(file));
  // A pod that fails for this is started again until the job's budget is spent.
  LOCKSTEP_RETURN_IF_ERROR(
      InFile(file.source, local::CheckStarts(pods, kubelet.volumes, kubelet.host, run->client_)));
  const Object& leading = controller::LeadingPod(pods);
  if (const Object* main = controller::FindMainContainer(leading)) {
    run->leading_ = kube::KeyOf(leading);
    LOCKSTEP_ASSIGN_OR_RETURN(const auto locations, local::LocateVolumes(leading, kubelet.volumes));
    LOCKSTEP_ASSIGN_OR_RETURN(run->leading_paths_, local::MapMounts(*main, locations));
  }
  run->Watch(controller::kTrainingJobKind, job.metadata.namespace_name);
  run->Watch(kube::kEventKind, job.metadata.namespace_name);
  run->kubelet_.Start();
  run->controller_.Start();
  LOCKSTEP_RETURN_IF_ERROR(run->CreateJob(file.job));
  return run;
}

LocalRun::~LocalRun() {
  if (reports_) reports_->Close();
  controller_.Stop();
  kubelet_.KillAll();
  if (joiner_.joinable()) joiner_.join();
  kubelet_.Join();
  for (std::jthread& watch : watches_) watch.request_stop();
  watches_.clear();  // before the client that they use
}

absl::Status LocalRun::CreateCompanions(const JobFile& file) {
  for (const Object& object : file.objects) {
    LOCKSTEP_RETURN_IF_ERROR(client_.Create(CompanionKind(object), object).status());
  }
  return absl::OkStatus();
}

absl::Status LocalRun::CreateJob(api::TrainingJob job) {
  job.spec.managed_by.clear();  // no other controller runs here
  return client_.Create(controller::kTrainingJobKind, api::TrainingJobToJson(job)).status();
}

void LocalRun::Watch(const kube::Kind& kind, const std::string& namespace_name) {
  watches_.emplace_back([this, kind, namespace_name](std::stop_token stop) {
    kube::WatchOptions options;
    options.namespace_name = namespace_name;
    // If the history no longer contains our version, start again with all existing objects.
    while (!stop.stop_requested()) {
      const absl::Status end = client_.Watch(kind, options, stop, [&](kube::WatchEvent event) {
        if (event.type == kube::WatchEvent::Type::kBookmark) return;
        const bool deleted = event.type == kube::WatchEvent::Type::kDeleted;
        if (kind == kube::kEventKind) {
          if (!deleted) inbox_.Post(EventSeen{std::move(event.object)});
        } else {
          inbox_.Post(JobChanged{std::move(event.object), deleted});
        }
      });
      if (!end.ok() && !absl::IsOutOfRange(end)) return;
    }
  });
}

void LocalRun::Stop() {
  if (reports_) reports_->OutlastController();
  controller_.Stop();
  kubelet_.Shutdown();
  if (joiner_.joinable()) return;
  joiner_ = std::jthread([this] {
    kubelet_.Join();
    inbox_.Post(PodsStopped());
  });
}

void LocalRun::Kill() {
  kubelet_.KillAll();
}

std::optional<api::Progress> LocalRun::TerminationProgress() {
  if (!leading_) return std::nullopt;
  const absl::StatusOr<Object> pod = client_.Get(kube::kPodKind, *leading_);
  if (!pod.ok()) return std::nullopt;
  const auto observed = controller::ObservePod(*pod);
  return observed && observed->termination ? observed->termination->progress : std::nullopt;
}

std::optional<api::Progress> LocalRun::LastReport(const std::string& job_uid) {
  return reports_ ? reports_->reports().Of(job_uid, {}).latest : std::nullopt;
}

kube::Object LocalRun::Objects(const kube::Key& job) {
  Object objects = {{"job", nullptr}, {"pods", Object::array()}, {"events", Object::array()}};
  if (auto found = client_.Get(controller::kTrainingJobKind, job); found.ok()) {
    objects["job"] = WithoutPrograms(*std::move(found));
  }
  const kube::ListOptions list{.namespace_name = job.namespace_name};
  if (auto page = client_.List(kube::kPodKind, list); page.ok()) {
    for (const Object& pod : page->items) objects["pods"].push_back(WithoutProgram(pod));
  }
  if (auto page = client_.List(kube::kEventKind, list); page.ok()) {
    for (const Object& event : page->items) objects["events"].push_back(AsCoreEvent(event));
  }
  return objects;
}

std::map<std::string, std::string> LocalRun::MetricsAddresses(const api::TrainingJob& job) const {
  std::map<std::string, std::string> addresses;
  if (!api::UsesBundledTrainer(job)) return addresses;
  for (const controller::Replica& replica : controller::AllReplicas(job)) {
    if (!controller::NodeRank(job, replica)) continue;
    addresses[controller::Describe(replica)] = fmt::format(
        "{}:{}", addresses_->Of(job, replica.role, replica.index).host, api::kMetricsPort);
  }
  return addresses;
}

std::string LocalRun::OnThisMachine(const std::string& container_path) const {
  return leading_paths_.Rewrite(container_path);
}

}  // namespace lockstep::cli
