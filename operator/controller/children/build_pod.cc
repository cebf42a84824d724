#include "operator/controller/children/build_pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/strategy_traits.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/gang.h"
#include "operator/controller/children/host_network.h"
#include "operator/controller/children/pod_revision.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/children/trainer_pod.h"
#include "operator/controller/state/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kAlways[] = "Always";

api::RestartPolicy RestartPolicyOf(const api::TrainingJob& job, api::Role role) {
  return job.spec.replica_specs.at(role).restart_policy.value_or(api::RestartPolicy::kExitCode);
}

// Returns true if the job has rules that judge the role's failures.
bool HasFailureRules(const api::TrainingJob& job, api::Role role) {
  return job.spec.run_policy.pod_failure_policy && role != api::Role::kEvaluator;
}

// The kubelet restarts containers only with restartScope Pod; the operator decides about ExitCode
// and about failures that rules may be about.
const char* PodRestartPolicy(const api::TrainingJob& job, api::Role role) {
  if (job.spec.restart_scope != api::RestartScope::kPod) return "Never";
  if (HasFailureRules(job, role)) return "Never";
  switch (RestartPolicyOf(job, role)) {
    case api::RestartPolicy::kAlways:
      return kAlways;
    case api::RestartPolicy::kOnFailure:
      return "OnFailure";
    case api::RestartPolicy::kNever:
    case api::RestartPolicy::kExitCode:
      return "Never";
  }
  return "Never";
}

// Kubeflow calls the leading replica of a PyTorchJob its master.
std::string KubeflowTypeOf(const api::TrainingJob& job, api::Role role) {
  const Object* main = FindMainContainer(*job.spec.replica_specs.at(role).tmpl);
  const bool is_master = role == api::Role::kChief && main != nullptr &&
                         kube::TextMember(*main, "name") == api::kPyTorchContainer;
  return is_master ? "master" : std::string(api::RoleName(role));
}

void AddKubeflowLabels(const api::TrainingJob& job, const Replica& replica, Object& labels) {
  labels["training.kubeflow.org/job-name"] = job.metadata.name;
  labels["training.kubeflow.org/replica-type"] = KubeflowTypeOf(job, replica.role);
  labels["training.kubeflow.org/replica-index"] = std::to_string(replica.index);
}

Object Metadata(const api::TrainingJob& job, const Settings& settings, const Replica& replica,
                int attempt) {
  const Object& pod_template = *job.spec.replica_specs.at(replica.role).tmpl;
  Object metadata = Object::object();
  const Object* given = pod_template.contains("metadata") ? &pod_template.at("metadata") : nullptr;
  for (const char* key : {"labels", "annotations"}) {
    if (given != nullptr && given->contains(key)) metadata[key] = given->at(key);
  }
  metadata.merge_patch(ChildMetadata(job, PodName(job, replica.role, replica.index)));
  Object& labels = metadata["labels"];
  labels[api::kLabelRole] = api::RoleName(replica.role);
  labels[api::kLabelReplicaIndex] = std::to_string(replica.index);
  labels[api::kLabelAttempt] = std::to_string(attempt);
  if (settings.kubeflow_labels) AddKubeflowLabels(job, replica, labels);
  Object& annotations = metadata["annotations"];
  annotations[api::kAnnotationSpecHash] = SpecHash(job, replica.role);
  // Drops the operator's notes from the template, which may be a copy of an earlier pod.
  for (const char* note :
       {api::kAnnotationClusterShape, api::kAnnotationElasticBounds, api::kAnnotationElasticPeers,
        api::kAnnotationMainContainer, api::kAnnotationNetworkPolicy, api::kAnnotationRestartPolicy,
        api::kAnnotationReportChannel, api::kAnnotationTokenSecret, api::kAnnotationTrainerImage,
        api::kAnnotationTrainerGpuImage}) {
    annotations.erase(note);
  }
  annotations[api::kAnnotationClusterShape] = ClusterShape(job);
  if (job.spec.restart_scope == api::RestartScope::kPod && HasFailureRules(job, replica.role) &&
      RestartPolicyOf(job, replica.role) == api::RestartPolicy::kAlways) {
    annotations[api::kAnnotationRestartPolicy] = kAlways;
  }
  if (auto peers = ElasticPeers(job)) {
    annotations[api::kAnnotationElasticPeers] = *std::move(peers);
  }
  return metadata;
}

// By default Kubernetes waits five minutes before it deletes the pods of a silent node, longer than
// peers wait for each other. The template's own tolerations of these taints are kept.
void AddNodeTolerations(std::int64_t seconds, Object& spec) {
  Object& tolerations = spec["tolerations"];
  if (tolerations.is_null()) tolerations = Object::array();
  if (!tolerations.is_array()) return;  // the API server rejects it
  for (const char* taint : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const bool has = std::ranges::any_of(tolerations, [taint](const Object& entry) {
      const std::string key = kube::TextMember(entry, "key");
      const std::string effect = kube::TextMember(entry, "effect");
      return (key.empty() || key == taint) && (effect.empty() || effect == "NoExecute");
    });
    if (has) continue;
    tolerations.push_back({{"key", taint},
                           {"operator", "Exists"},
                           {"effect", "NoExecute"},
                           {"tolerationSeconds", seconds}});
  }
}

// Returns true if the operator learns of a lost replica from the job's group, and so sooner than
// from Kubernetes. With parameter servers each process is by itself: nobody misses it.
bool ReportsLosses(const api::TrainingJob& job, const Settings& settings) {
  return settings.watch_nodes && settings.poll_progress && api::HasTrainingGroup(job) &&
         api::TraitsOf(job.spec).uses_collectives;
}

std::set<std::string> EnvNames(const Object& container) {
  std::set<std::string> names;
  if (!container.is_object() || !container.contains("env")) return names;
  for (const Object& entry : container.at("env")) names.insert(kube::TextMember(entry, "name"));
  return names;
}

// Whether the entry is a template's settings of torchrun's rendezvous that leave open who hosts the
// store. Who does depends on the pod, so a template cannot say it.
bool LacksHost(const Object& entry) {
  if (kube::TextMember(entry, "name") != kEnvTorchRendezvous) return false;
  return !entry.contains("valueFrom") &&
         kube::TextMember(entry, "value").find("is_host") == std::string::npos;
}

bool HasOpenRendezvous(const Object& container) {
  return container.contains("env") && std::ranges::any_of(container.at("env"), LacksHost);
}

// Adds the host to such settings. torchrun takes the last of two, so what a variable that the
// template's text refers to says of the host counts.
void AddHost(const std::vector<EnvVar>& env, Object& entry) {
  if (!LacksHost(entry)) return;
  const auto ours = std::ranges::find(env, std::string(kEnvTorchRendezvous), &EnvVar::name);
  if (ours == env.end()) return;
  const std::string settings = kube::TextMember(entry, "value");
  entry["value"] = ours->source.get<std::string>() + (settings.empty() ? "" : ",") + settings;
}

// Ours come first, so that the user's variables can refer to them by $(NAME).
void AddEnv(const std::vector<EnvVar>& env, Object& container) {
  const std::set<std::string> own = EnvNames(container);
  Object merged = Object::array();
  for (const EnvVar& variable : env) {
    if (own.contains(variable.name)) continue;
    const char* key = variable.source.is_string() ? "value" : "valueFrom";
    Object& entry = merged.emplace_back(Object::object());
    entry["name"] = variable.name;
    entry[key] = variable.source;
  }
  if (container.contains("env")) {
    for (Object& entry : container.at("env")) {
      AddHost(env, entry);
      merged.push_back(std::move(entry));
    }
  }
  if (!merged.empty()) container["env"] = std::move(merged);
}

// Makes Python write its output at once, not only when its buffer is full or it exits.
// OverriddenEnv leaves this out: a template that sets it overrides nothing that the job asks for.
void AddDefaults(const api::TrainingJob& job, std::vector<EnvVar>& env) {
  if (!api::UsesBundledTrainer(job)) env.push_back({"PYTHONUNBUFFERED", "1"});
}

void AddEnvOfContainers(const ClusterSpec& cluster, const Replica& replica, int attempt,
                        const Object& main, Object& containers) {
  std::vector<EnvVar> main_env = ReplicaEnv(cluster, replica, attempt);
  std::vector<EnvVar> sidecar_env = SidecarEnv(cluster, replica, attempt);
  AddDefaults(cluster.job(), main_env);
  AddDefaults(cluster.job(), sidecar_env);
  for (Object& container : containers) {
    AddEnv(&container == &main ? main_env : sidecar_env, container);
  }
}

// Kubernetes refuses a pod with more search domains, or with more characters, spaces between them
// included.
constexpr std::size_t kMostSearches = 32, kMostSearchCharacters = 2048;

bool HasRoomFor(const std::string& domain, const Object& searches) {
  std::size_t characters = domain.size();
  for (const Object& search : searches) {
    if (search.is_string()) characters += search.get_ref<const std::string&>().size() + 1;
  }
  return searches.size() < kMostSearches && characters <= kMostSearchCharacters;
}

// Lets the pods resolve each other's bare names, which Kubeflow's programs know each other by.
// Every lookup of an outer name may try the domain too, so the bundled trainer's pods, which use
// full names, go without; so does a template that leaves no room for it.
void AddSearchDomain(const api::TrainingJob& job, const Settings& settings, Object& spec) {
  if (settings.cluster_domain.empty() || api::UsesBundledTrainer(job)) return;
  Object& config = spec["dnsConfig"];
  if (config.is_null()) config = Object::object();
  if (!config.is_object()) return;  // the API server rejects it
  Object& searches = config["searches"];
  if (searches.is_null()) searches = Object::array();
  if (!searches.is_array()) return;
  const std::string domain = fmt::format("{}.{}.svc.{}", job.metadata.name,
                                         job.metadata.namespace_name, settings.cluster_domain);
  const auto is_domain = [&domain](const Object& search) { return search == domain; };
  if (std::ranges::any_of(searches, is_domain) || !HasRoomFor(domain, searches)) return;
  searches.push_back(domain);
}

// Whether the main container starts again is the job's to decide, as for the pod: the operator
// takes its end for that of the replica.
void DropRestartPolicyOfMain(Object& spec) {
  Object* main = spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  if (main == nullptr || !main->is_object()) return;
  main->erase("restartPolicy");
  main->erase("restartPolicyRules");
}

// Puts the last log lines into status.failure without any permission to read logs. Containers
// beside the main one do not fail the pod and so are not asked for theirs.
void AddMessagePolicies(Object& spec) {
  const auto add = [](Object& container) {
    constexpr char kMessagePolicy[] = "terminationMessagePolicy";
    if (!container.is_object() || container.contains(kMessagePolicy)) return;
    container[kMessagePolicy] = "FallbackToLogsOnError";
  };
  Object* main = spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  if (main != nullptr) add(*main);
  if (!kube::Member(spec, "initContainers").is_array()) return;  // the API server rejects it
  for (Object& container : spec.at("initContainers")) add(container);
}

}  // namespace

Object PodSpecOf(const api::TrainingJob& job, const Settings& settings, api::Role role) {
  const Object& pod_template = *job.spec.replica_specs.at(role).tmpl;
  Object spec = Object::object();
  if (pod_template.contains("spec")) spec = pod_template.at("spec");
  if (api::UsesBundledTrainer(job)) ApplyTrainerDefaults(job, settings, role, spec);
  AddMessagePolicies(spec);
  spec["restartPolicy"] = PodRestartPolicy(job, role);
  DropRestartPolicyOfMain(spec);
  if (!ReportsLosses(job, settings)) AddNodeTolerations(settings.node_toleration_seconds, spec);
  const auto& scheduling = job.spec.run_policy.scheduling_policy;
  if (scheduling && !scheduling->priority_class.empty() && !spec.contains("priorityClassName")) {
    spec["priorityClassName"] = scheduling->priority_class;
  }
  return spec;
}

Object BuildPod(const ClusterSpec& cluster, const Settings& settings, const Replica& replica,
                int attempt) {
  const api::TrainingJob& job = cluster.job();
  const Object& pod_template = *job.spec.replica_specs.at(replica.role).tmpl;
  Object spec = PodSpecOf(job, settings, replica.role);
  spec["hostname"] = PodName(job, replica.role, replica.index);
  spec["subdomain"] = job.metadata.name;
  AddHostNetwork(job, replica, spec);
  AddSearchDomain(job, settings, spec);
  Object metadata = Metadata(job, settings, replica, attempt);
  const Object* main =
      spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  const std::string main_name = main == nullptr ? "" : kube::TextMember(*main, "name");
  if (!main_name.empty() && !IsMainContainerName(main_name)) {  // known names need no note
    metadata["annotations"][api::kAnnotationMainContainer] = main_name;
  }
  if (api::UsesBundledTrainer(job)) {
    const bool is_own = !FindMainImage(pod_template).empty();
    const TrainerImages images = is_own ? TrainerImages() : settings.trainer_images;
    metadata["annotations"][api::kAnnotationTrainerImage] = images.cpu;
    metadata["annotations"][api::kAnnotationTrainerGpuImage] = images.gpu;
  }
  if (main != nullptr) {
    const bool is_own = EnvNames(*main).contains(kEnvTorchNodes);
    if (TellsElasticBounds(job, replica.role) && !is_own) {
      metadata["annotations"][api::kAnnotationElasticBounds] =
          WriteElasticBounds(*job.spec.elastic);
    }
    AddEnvOfContainers(cluster, replica, attempt, *main, spec.at("containers"));
  }
  Object pod = {{"apiVersion", kube::kPodKind.ApiVersion()},
                {"kind", kube::kPodKind.kind},
                {"metadata", std::move(metadata)},
                {"spec", std::move(spec)}};
  JoinPodGroup(job, settings, replica.role, pod);
  return pod;
}

std::vector<std::string> OverriddenEnv(const api::TrainingJob& job) {
  static const api::Json::json_pointer kContainers("/spec/containers");
  const DnsAddresses addresses;  // only names of variables matter here
  const ClusterSpec cluster(job, addresses);
  std::set<std::string> overridden;
  for (const auto& [role, spec] : job.spec.replica_specs) {
    if (spec.replicas == 0 || !spec.tmpl->contains(kContainers)) continue;
    const Object* main = FindMainContainer(*spec.tmpl);
    const std::vector<EnvVar> main_env = ReplicaEnv(cluster, {role, 0}, 0);
    const std::vector<EnvVar> sidecar_env = SidecarEnv(cluster, {role, 0}, 0);
    for (const Object& container : spec.tmpl->at(kContainers)) {
      std::set<std::string> own = EnvNames(container);
      if (HasOpenRendezvous(container)) own.erase(kEnvTorchRendezvous);
      for (const EnvVar& variable : &container == main ? main_env : sidecar_env) {
        if (own.contains(variable.name)) overridden.insert(variable.name);
      }
    }
  }
  return {overridden.begin(), overridden.end()};
}

}  // namespace lockstep::controller
