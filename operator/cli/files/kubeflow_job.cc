#include "operator/cli/files/kubeflow_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/validate.h"
#include "base/status.h"
#include "operator/cli/files/master_host.h"
#include "operator/cli/files/parts.h"
#include "operator/cli/files/torch_processes.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kKubeflowApi[] = "kubeflow.org/v1";
constexpr char kKubeflowManager[] = "kubeflow.org/training-operator";
// The ports that have another name here.
constexpr const char* kRenamedPorts[] = {"pytorchjob-port", "jaxjob-port"};

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Kubeflow ignores the case; a master is TensorFlow 2's chief.
std::optional<api::Role> RoleOf(const std::string& key) {
  const std::string name = Lower(key);
  if (name == "master" || name == "chief") return api::Role::kChief;
  if (name == "worker") return api::Role::kWorker;
  if (name == "ps") return api::Role::kParameterServer;
  if (name == "evaluator") return api::Role::kEvaluator;
  return std::nullopt;
}

// The rendezvous port has a different name here; its number stays.
void RenamePort(api::Json& pod_template) {
  static const api::Json::json_pointer kContainers("/spec/containers");
  if (!pod_template.contains(kContainers) || !pod_template.at(kContainers).is_array()) return;
  for (api::Json& container : pod_template.at(kContainers)) {
    if (!container.is_object() || !container.contains("ports")) continue;
    for (api::Json& port : container.at("ports")) {
      if (!port.is_object()) continue;
      const std::string name = kube::TextMember(port, "name");
      if (std::ranges::find(kRenamedPorts, name) != std::end(kRenamedPorts)) {
        port["name"] = api::kClusterPortNames[1];
      }
    }
  }
}

OrderedJson ConvertReplica(Parts source, const char* default_policy) {
  OrderedJson replica = OrderedJson::object();
  source.Move("replicas", replica);
  source.Move("restartPolicy", replica);
  if (!replica.contains("restartPolicy")) replica["restartPolicy"] = default_policy;
  api::Json pod_template = source.Take("template").value_or(api::Json::object());
  RenamePort(pod_template);
  replica["template"] = OrderedJson::parse(pod_template.dump());
  source.NoteRest();
  return replica;
}

OrderedJson ConvertReplicas(Parts source, const char* default_policy) {
  std::vector<std::pair<api::Role, OrderedJson>> replicas;
  const api::Json all = source.rest();
  for (const auto& [key, value] : all.items()) {
    const auto role = RoleOf(key);
    if (!role) continue;
    replicas.emplace_back(*role, ConvertReplica(source.Section(key.c_str()), default_policy));
  }
  source.NoteRest();
  std::ranges::stable_sort(replicas, {}, &std::pair<api::Role, OrderedJson>::first);
  OrderedJson converted = OrderedJson::object();
  for (auto& [role, replica] : replicas) {
    converted[std::string(api::RoleKey(role))] = std::move(replica);
  }
  return converted;
}

// `from` is runPolicy; older jobs have the same fields in spec itself.
void ConvertRunPolicy(Parts from, Parts& spec, OrderedJson& to) {
  OrderedJson policy = OrderedJson::object();
  for (const char* field :
       {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"}) {
    spec.Move(field, policy);
    from.Move(field, policy);
  }
  if (!policy.contains("cleanPodPolicy")) {
    from.NoteField("cleanPodPolicy",
                   "is not set: Kubeflow's default is None, Lockstep's is Running: pods that "
                   "still run when the job ends are deleted");
  }
  if (!policy.contains("backoffLimit")) {
    from.NoteField("backoffLimit", "is not set: Kubeflow's default is no limit, Lockstep's is 6");
  }
  if (auto scheduling = from.Take("schedulingPolicy")) {
    Parts source(*scheduling, from.Path("schedulingPolicy"), from.notes());
    OrderedJson& target = policy["schedulingPolicy"];
    for (const char* field :
         {"minAvailable", "queue", "minResources", "priorityClass", "scheduleTimeoutSeconds"}) {
      source.Move(field, target);
    }
    source.NoteRest();
  }
  from.Move("suspend", to);
  if (const auto manager = from.Take("managedBy"); manager && *manager != kKubeflowManager) {
    to["managedBy"] = OrderedJson::parse(manager->dump());
  }
  from.NoteRest();
  if (!policy.empty()) to["runPolicy"] = std::move(policy);
}

int WorkersOf(const OrderedJson& spec) {
  const OrderedJson& roles = spec.at("replicaSpecs");
  if (!roles.contains("Worker") || !roles.at("Worker").contains("replicas")) return 1;
  const OrderedJson& replicas = roles.at("Worker").at("replicas");
  return replicas.is_number_integer() ? replicas.get<int>() : 1;
}

bool IsNamed(const OrderedJson& entry, const char* name) {
  return entry.is_object() && entry.contains("name") && entry.at("name") == name;
}

// Sets a variable of torchrun in the containers of Kubeflow's name, unless they set it themselves.
void SetTorchVariable(const char* name, const std::string& value, OrderedJson& to) {
  static const OrderedJson::json_pointer kContainers("/template/spec/containers");
  for (OrderedJson& replica : to.at("replicaSpecs")) {
    if (!replica.contains(kContainers) || !replica.at(kContainers).is_array()) continue;
    for (OrderedJson& container : replica.at(kContainers)) {
      if (!IsNamed(container, api::kPyTorchContainer)) continue;
      OrderedJson& env = container["env"];
      if (env.is_null()) env = OrderedJson::array();
      if (!env.is_array()) continue;  // refused with the template
      const bool is_set = std::ranges::any_of(
          env, [name](const OrderedJson& variable) { return IsNamed(variable, name); });
      if (!is_set) env.push_back({{"name", name}, {"value", value}});
    }
  }
}

constexpr char kHost[] = "is_host";

bool NamesHost(const api::Json& entries) {
  return entries.is_array() && std::ranges::any_of(entries, [](const api::Json& entry) {
           return kube::TextMember(entry, "key") == kHost;
         });
}

// [{key: timeout, value: "900"}] is --rdzv-conf=timeout=900. Without the host, which is one of the
// pods, and here would be all or none.
std::optional<std::string> RendezvousConf(const api::Json& entries) {
  if (!entries.is_array()) return std::nullopt;
  std::string conf;
  for (const api::Json& entry : entries) {
    const std::string key = kube::TextMember(entry, "key");
    const std::string value = kube::TextMember(entry, "value");
    if (key.empty() || value.empty()) return std::nullopt;
    if (key == kHost) continue;
    conf += fmt::format("{}{}={}", conf.empty() ? "" : ",", key, value);
  }
  return conf;
}

// What only torchrun reads, and Kubeflow's operator passes on to it.
void ConvertTorchrun(Parts& source, OrderedJson& to) {
  if (const auto restarts = source.Take("maxRestarts")) {
    if (restarts->is_number_integer()) {
      SetTorchVariable("PET_MAX_RESTARTS", restarts->dump(), to);
    } else {
      source.NoteField("maxRestarts",
                       fmt::format("found {}, expected a number; left out", restarts->dump()));
    }
  }
  if (const auto entries = source.Take("rdzvConf")) {
    if (const auto conf = RendezvousConf(*entries)) {
      if (!conf->empty()) SetTorchVariable("PET_RDZV_CONF", *conf, to);
      if (NamesHost(*entries)) {
        source.NoteField("rdzvConf", "is_host is left out: the leading pod hosts the store");
      }
    } else {
      source.NoteField("rdzvConf", "expected a list of keys with values; left out");
    }
  }
}

void ConvertElastic(Parts source, OrderedJson& to) {
  OrderedJson elastic = OrderedJson::object();
  source.Move("minReplicas", elastic);
  source.Move("maxReplicas", elastic);
  const int workers = WorkersOf(to);
  if (!elastic.contains("minReplicas")) elastic["minReplicas"] = std::max(workers, 1);
  if (!elastic.contains("maxReplicas")) elastic["maxReplicas"] = std::max(workers, 1);
  ConvertProcesses(source, "nProcPerNode", to);
  if (const auto backend = source.Take("rdzvBackend"); backend && *backend != "c10d") {
    source.NoteField("rdzvBackend",
                     fmt::format("{} is left out: Lockstep always uses c10d", backend->dump()));
  }
  ConvertTorchrun(source, to);
  if (source.Take("metrics")) {
    source.NoteField(
        "metrics",
        "is left out: create a HorizontalPodAutoscaler that scales the TrainingJob instead");
  }
  source.NoteRest();
  to["elastic"] = std::move(elastic);
  to["restartScope"] = "Pod";  // torchrun's agents find each other again by themselves
}

void ConvertTensorFlow(Parts& spec, OrderedJson& to) {
  to["replicaSpecs"] = ConvertReplicas(spec.Section("tfReplicaSpecs"), "Never");
  const bool has_servers = to["replicaSpecs"].contains("PS");
  if (has_servers) to["strategy"] = {{"type", "ParameterServer"}};
  if (const auto policy = spec.Take("successPolicy"); policy && *policy != api::Json("")) {
    if (to["replicaSpecs"].contains("Chief")) {
      spec.NoteField("successPolicy",
                     fmt::format("{} is left out: Kubeflow ignores it in a TFJob with a Chief or "
                                 "Master, whose success is the job's here, too",
                                 policy->dump()));
    } else {
      to["successPolicy"] = OrderedJson::parse(policy->dump());
    }
  }
  const auto dynamic = spec.Take("enableDynamicWorker");
  if (!dynamic || *dynamic != api::Json(true)) return;
  if (!has_servers) {
    spec.NoteField("enableDynamicWorker",
                   "has an equivalent only with parameter servers and is left out");
    return;
  }
  to["elastic"] = {{"minReplicas", 1}, {"maxReplicas", std::max(WorkersOf(to), 1)}};
  spec.NoteField("enableDynamicWorker",
                 "becomes spec.elastic: set maxReplicas to the most workers that the job may have");
}

// Kubeflow ends such a job when all workers have ended; an elastic one when any has.
bool HasOnlyWorkers(const OrderedJson& to) {
  return !to.at("replicaSpecs").contains("Chief") && WorkersOf(to) > 1;
}

void ConvertPyTorch(Parts& spec, OrderedJson& to) {
  ConvertProcesses(spec, "nprocPerNode", to);
  to["replicaSpecs"] = ConvertReplicas(spec.Section("pytorchReplicaSpecs"), "OnFailure");
  if (auto elastic = spec.Take("elasticPolicy")) {
    ConvertElastic({*elastic, spec.Path("elasticPolicy"), spec.notes()}, to);
    if (HasOnlyWorkers(to)) {
      spec.Note(
          "spec.successPolicy: Kubeflow ends the job when any worker has succeeded, Lockstep when "
          "worker 0 has");
    }
  } else if (HasOnlyWorkers(to)) {
    to["successPolicy"] = "AllWorkers";
  }
  NoteUncountedProcesses(spec, to);
}

void ConvertJax(Parts& spec, OrderedJson& to) {
  to["replicaSpecs"] = ConvertReplicas(spec.Section("jaxReplicaSpecs"), "Never");
  if (HasOnlyWorkers(to)) to["successPolicy"] = "AllWorkers";
}

OrderedJson ConvertMetadata(const api::Json& object) {
  OrderedJson metadata = OrderedJson::object();
  if (!object.contains("metadata") || !object.at("metadata").is_object()) return metadata;
  const api::Json& from = object.at("metadata");
  for (const char* key : {"name", "namespace", "labels", "annotations"}) {
    if (from.contains(key)) metadata[key] = OrderedJson::parse(from.at(key).dump());
  }
  if (metadata.contains("annotations") && metadata["annotations"].is_object()) {
    metadata["annotations"].erase("kubectl.kubernetes.io/last-applied-configuration");
    if (metadata["annotations"].empty()) metadata.erase("annotations");
  }
  return metadata;
}

// Orders the fields for readers: the most informative first.
OrderedJson InReadingOrder(const OrderedJson& spec) {
  OrderedJson ordered = OrderedJson::object();
  for (const char* key : {"suspend", "managedBy", "strategy", "replicaSpecs", "elastic",
                          "restartScope", "successPolicy", "runPolicy"}) {
    if (spec.contains(key)) ordered[key] = spec.at(key);
  }
  return ordered;
}

// What to know of a job that has been on a cluster before the TrainingJob is created there.
void NoteOnCluster(const kube::Object& object, std::vector<std::string>& notes) {
  const std::string kind = kube::TextMember(object, "kind");
  const kube::Object& status = kube::Member(object, "status");
  for (const char* end : {"Succeeded", "Failed"}) {
    if (!kube::IsTrueCondition(kube::ConditionOf(status, end))) continue;
    notes.push_back(fmt::format(
        "status: this {} has ended ({}): the TrainingJob, once created, runs it again", kind, end));
  }
  if (!kube::Uid(object).empty()) {
    notes.push_back(fmt::format(
        "metadata.name: this {} is on a cluster, and its pods have the names of the TrainingJob's: "
        "delete it first, or give the TrainingJob another name",
        kind));
  }
}

absl::Status CheckResult(const OrderedJson& object) {
  const auto job = api::TrainingJobFromJson(api::Json::parse(object.dump()));
  if (!job.ok()) return job.status();
  return api::ToStatus(api::ValidateNew(api::WithDefaults(*job)));
}

}  // namespace

bool IsKubeflowJob(const kube::Object& object) {
  if (!object.is_object() || object.value("apiVersion", api::Json()) != kKubeflowApi) return false;
  const api::Json kind = object.value("kind", api::Json());
  return kind == "TFJob" || kind == "PyTorchJob" || kind == "JAXJob";
}

bool IsOtherKubeflowJob(const kube::Object& object) {
  const std::string version = kube::TextMember(object, "apiVersion");
  const std::string group = version.substr(0, version.find('/'));
  return (group == "kubeflow.org" || group == "trainer.kubeflow.org") &&
         kube::TextMember(object, "kind").ends_with("Job") && !IsKubeflowJob(object);
}

absl::StatusOr<ConvertedJob> ConvertKubeflowJob(const kube::Object& object) {
  if (!object.contains("spec") || !object.at("spec").is_object()) {
    return absl::InvalidArgumentError("spec: found none, expected an object");
  }
  ConvertedJob converted;
  Parts spec(object.at("spec"), "spec", converted.notes);
  OrderedJson made = OrderedJson::object();
  if (object.at("kind") == "TFJob") {
    ConvertTensorFlow(spec, made);
  } else if (object.at("kind") == "JAXJob") {
    ConvertJax(spec, made);
  } else {
    ConvertPyTorch(spec, made);
  }
  ConvertRunPolicy(spec.Section("runPolicy"), spec, made);
  spec.NoteRest();
  if (!made.contains("restartScope") && !made["replicaSpecs"].contains("PS")) {
    converted.notes.emplace_back(
        "spec.restartScope: the loss of a replica restarts all of them (Gang); set Pod to restart "
        "only that one, as Kubeflow does");
  }
  if (RenameMasterHost(object, made)) {
    converted.notes.push_back(
        fmt::format("spec.replicaSpecs: the host name {0}-master-0 is replaced by {0}-chief-0, "
                    "the Master's here",
                    kube::Name(object)));
  }
  NoteOnCluster(object, converted.notes);
  converted.object["apiVersion"] = api::kApiVersion;
  converted.object["kind"] = api::kKind;
  converted.object["metadata"] = ConvertMetadata(object);
  converted.object["spec"] = InReadingOrder(made);
  LOCKSTEP_RETURN_IF_ERROR(CheckResult(converted.object));
  return converted;
}

}  // namespace lockstep::cli
