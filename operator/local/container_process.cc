#include "operator/local/container_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "api/v1/names.h"
#include "api/v1/quantity.h"
#include "base/json_text.h"
#include "base/status.h"
#include "operator/local/volumes.h"

namespace lockstep::local {
namespace {

using kube::Object;
using Env = std::map<std::string, std::string>;

// Variables that an outer job, or a user's shell, must not pass on to a pod: what the operator and
// torchrun tell a replica of its place, and where it reports.
constexpr const char* kNotInherited[] = {api::kEnvTfConfig,
                                         api::kEnvProgressUrl,
                                         api::kEnvProgressToken,
                                         "MASTER_ADDR",
                                         "MASTER_PORT",
                                         "RANK",
                                         "WORLD_SIZE",
                                         "LOCAL_RANK",
                                         "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",
                                         "JAX_COORDINATOR_ADDRESS",
                                         "JAX_NUM_PROCESSES",
                                         "JAX_PROCESS_ID",
                                         "COORDINATOR_ADDRESS",
                                         "COORDINATOR_PORT",
                                         "NUM_PROCESSES",
                                         "PROCESS_ID"};
constexpr const char* kPrefixesNotInherited[] = {"LOCKSTEP_", "PET_", "TORCHELASTIC_"};

bool NamesProxy(const std::string& variable) {
  const std::string name = absl::AsciiStrToLower(variable);
  return name == "http_proxy" || name == "https_proxy" || name == "grpc_proxy" ||
         name == "all_proxy";
}

// Keeps programs from asking a proxy for the job's own pods, as gRPC in TensorFlow and JAX does: in
// a cluster, pods have no proxy. Not every program reads masks, so each address is listed, too.
void KeepFromProxies(const std::vector<std::string>& hosts, Env& env) {
  if (std::ranges::none_of(env, [](const auto& entry) { return NamesProxy(entry.first); })) return;
  const std::string ours = fmt::format("localhost,127.0.0.1,127.0.0.0/8{}{}",
                                       hosts.empty() ? "" : ",", fmt::join(hosts, ","));
  // A program may read either of them, so one that was not set begins with the other's value.
  env.try_emplace("no_proxy", env.contains("NO_PROXY") ? env["NO_PROXY"] : "");
  env.try_emplace("NO_PROXY", env["no_proxy"]);
  for (const char* name : {"no_proxy", "NO_PROXY", "no_grpc_proxy"}) {
    const auto found = env.find(name);
    if (found == env.end() || found->second == "*") continue;  // only gRPC reads the third
    found->second += (found->second.empty() ? "" : ",") + ours;
  }
}

Env Inherited(const HostFacts& host) {
  Env env;
  for (const auto& [name, value] : host.env) {
    // Where this machine's GPU libraries are is no variable of a job.
    const bool is_of_a_job = name != "LOCKSTEP_CUDA_PATH" &&
                             std::ranges::any_of(kPrefixesNotInherited, [&](const char* prefix) {
                               return name.starts_with(prefix);
                             });
    if (!is_of_a_job) env[name] = value;
  }
  for (const char* name : kNotInherited) env.erase(name);
  KeepFromProxies(host.pod_hosts, env);
  return env;
}

std::optional<std::string> TextAt(const Object& object, const std::string& pointer) {
  const Object::json_pointer where(pointer);
  if (!object.contains(where) || !object[where].is_string()) return std::nullopt;
  return object[where].get<std::string>();
}

// Supports the downward API's plain paths and those such as metadata.labels['role'].
absl::StatusOr<std::string> FieldOf(const Object& pod, const std::string& path) {
  for (const char* map : {"labels", "annotations"}) {
    const std::string prefix = fmt::format("metadata.{}['", map);
    if (!path.starts_with(prefix) || !path.ends_with("']")) continue;
    const std::string key = path.substr(prefix.size(), path.size() - prefix.size() - 2);
    const Object entries = pod["metadata"].value(map, Object::object());
    return entries.contains(key) ? entries[key].get<std::string>() : std::string();
  }
  static const auto* const kPaths = new std::map<std::string, std::string>{
      {"metadata.name", "/metadata/name"},
      {"metadata.namespace", "/metadata/namespace"},
      {"metadata.uid", "/metadata/uid"},
      {"spec.nodeName", "/spec/nodeName"},
      {"spec.serviceAccountName", "/spec/serviceAccountName"},
      {"status.podIP", "/status/podIP"},
      {"status.podIPs", "/status/podIP"},
      {"status.hostIP", "/status/hostIP"}};
  const auto known = kPaths->find(path);
  if (known == kPaths->end()) {
    return absl::InvalidArgumentError(fmt::format("fieldPath \"{}\" is not one of a pod's", path));
  }
  return TextAt(pod, known->second).value_or("");
}

absl::StatusOr<std::string> KeyOfObject(const Object& pod, const kube::Kind& kind,
                                        const Object& reference, kube::Client& client) {
  const std::string name = reference.value("name", "");
  const std::string key = reference.value("key", "");
  const auto object = client.Get(kind, {kube::Namespace(pod), name});
  if (!object.ok()) {
    return absl::NotFoundError(
        fmt::format("no {} \"{}\" in namespace {}", kind.kind, name, kube::Namespace(pod)));
  }
  const Env entries = EntriesOf(*object);
  const auto entry = entries.find(key);
  if (entry != entries.end()) return entry->second;
  return absl::NotFoundError(fmt::format("{} \"{}\" has no key \"{}\"", kind.kind, name, key));
}

// Returns the resource, rounded up: limits.cpu in whole cores, others in their own unit, divided by
// the divisor.
absl::StatusOr<std::string> ResourceOf(const Object& container, const Object& reference) {
  const std::string path = reference.value("resource", "");
  const std::size_t dot = path.find('.');
  const std::string resource = dot == std::string::npos ? "" : path.substr(dot + 1);
  const Object& listed =
      kube::Member(kube::Member(container, "resources"), path.substr(0, dot).c_str());
  const Object& quantity = kube::Member(listed, resource.c_str());
  if (quantity.is_null()) {
    return absl::NotFoundError(fmt::format("the container sets no resources.{}", path));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const double amount, api::ParseQuantity(quantity));
  double divisor = 1;
  if (reference.contains("divisor") && reference["divisor"] != "0") {
    LOCKSTEP_ASSIGN_OR_RETURN(divisor, api::ParseQuantity(reference["divisor"]));
  }
  return fmt::format("{:.0f}", std::ceil(amount / divisor));
}

// Returns nullopt for an optional source that does not exist.
absl::StatusOr<std::optional<std::string>> ValueFrom(const Object& pod, const Object& container,
                                                     const Object& source, kube::Client& client) {
  if (source.contains("fieldRef")) {
    return FieldOf(pod, source["fieldRef"].value("fieldPath", ""));
  }
  if (source.contains("resourceFieldRef")) {
    return ResourceOf(container, source["resourceFieldRef"]);
  }
  for (const auto& [field, kind] :
       {std::pair{"configMapKeyRef", &kConfigMapKind}, {"secretKeyRef", &kube::kSecretKind}}) {
    if (!source.contains(field)) continue;
    absl::StatusOr<std::string> value = KeyOfObject(pod, *kind, source[field], client);
    if (absl::IsNotFound(value.status()) && source[field].value("optional", false)) {
      return std::nullopt;
    }
    return value;
  }
  return absl::InvalidArgumentError(fmt::format("unknown valueFrom {}", JsonText(source)));
}

absl::Status AddEnvFrom(const Object& pod, const Object& container, kube::Client& client,
                        Env& env) {
  for (const Object& from : container.value("envFrom", Object::array())) {
    const bool secret = from.contains("secretRef");
    const kube::Kind& kind = secret ? kube::kSecretKind : kConfigMapKind;
    const Object reference = from.value(secret ? "secretRef" : "configMapRef", Object::object());
    const std::string name = reference.value("name", "");
    const auto object = client.Get(kind, {kube::Namespace(pod), name});
    if (!object.ok()) {
      if (reference.value("optional", false)) continue;
      return absl::NotFoundError(fmt::format("envFrom: no {} \"{}\" in namespace {}", kind.kind,
                                             name, kube::Namespace(pod)));
    }
    for (const auto& [key, value] : EntriesOf(*object)) {
      env[from.value("prefix", "") + key] = value;
    }
  }
  return absl::OkStatus();
}

// Returns the env of the pod's spec, in its order: a value may reference earlier variables.
absl::StatusOr<Env> OwnEnv(const Object& pod, const Object& container, kube::Client& client) {
  Env env;
  LOCKSTEP_RETURN_IF_ERROR(AddEnvFrom(pod, container, client, env));
  for (const Object& variable : container.value("env", Object::array())) {
    const std::string name = variable.value("name", "");
    if (!variable.contains("valueFrom")) {
      env[name] = ExpandVariables(variable.value("value", ""), env);
      continue;
    }
    const auto value = ValueFrom(pod, container, variable["valueFrom"], client);
    if (!value.ok()) {
      return absl::Status(value.status().code(),
                          fmt::format("env {}: {}", name, std::string(value.status().message())));
    }
    if (*value) env[name] = **value;
  }
  return env;
}

// True for the trainer's name, and for a shell's command with it: a path that has it within a word
// of its own names something else.
bool NamesTrainer(const std::string& argument) {
  static constexpr std::string_view kName = "lockstep-trainer", kEnds = " \t\n;&|()";
  for (std::size_t at = argument.find(kName); at != std::string::npos;
       at = argument.find(kName, at + 1)) {
    const std::size_t end = at + kName.size();
    const bool begins =
        at == 0 || argument[at - 1] == '/' || kEnds.find(argument[at - 1]) != kEnds.npos;
    const bool ends = end == argument.size() || kEnds.find(argument[end]) != kEnds.npos;
    if (begins && ends) return true;
  }
  return false;
}

absl::StatusOr<ProcessSpec> Assemble(const Object& pod, const Object& container,
                                     const PathMap& paths, const HostFacts& host,
                                     kube::Client& client) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Env own, OwnEnv(pod, container, client));
  ProcessSpec spec;
  for (const char* part : {"command", "args"}) {
    for (const Object& word : container.value(part, Object::array())) {
      const std::string text = word.is_string() ? word.get<std::string>() : word.dump();
      spec.argv.push_back(paths.Rewrite(ExpandVariables(text, own)));
    }
  }
  if (!container.contains("command") || container["command"].empty()) {
    return absl::InvalidArgumentError(
        "no command: lockstep run starts processes, not images, so the image's entry point must be "
        "written out as `command`");
  }
  spec.env = Inherited(host);
  spec.env["HOSTNAME"] = kube::Name(pod);
  for (const auto& [name, value] : own) spec.env[name] = paths.Rewrite(value);
  std::string& path = spec.env["PATH"];
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  // The trainer is that of this version, also if a shell or env starts it. Other programs are those
  // that the user's PATH finds: where we are installed there may be another Python than that of a
  // virtual environment.
  path = std::ranges::any_of(spec.argv, NamesTrainer) ? host.program_dir + ":" + path
                                                      : path + ":" + host.program_dir;
  const std::string folder = paths.Rewrite(container.value("workingDir", ""));
  if (folder.starts_with('/')) {
    spec.working_dir = folder;
  } else {
    spec.working_dir = folder.empty() ? host.current_dir : host.current_dir + "/" + folder;
  }
  return spec;
}

}  // namespace

std::string ExpandVariables(const std::string& text, const Env& env) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '$' && next == '$') {
      out += '$';
      ++i;
      continue;
    }
    const std::size_t end = text[i] == '$' && next == '(' ? text.find(')', i) : std::string::npos;
    const auto it =
        end == std::string::npos ? env.end() : env.find(text.substr(i + 2, end - i - 2));
    if (it == env.end()) {
      out += text[i];
    } else {
      out += it->second;
      i = end;
    }
  }
  return out;
}

absl::StatusOr<ProcessSpec> MakeProcess(const Object& pod, const Object& container,
                                        const PathMap& paths, const HostFacts& host,
                                        kube::Client& client) {
  absl::StatusOr<ProcessSpec> spec = Assemble(pod, container, paths, host, client);
  if (spec.ok()) return spec;
  return absl::Status(spec.status().code(), fmt::format("pod {}: container {}: {}", kube::Name(pod),
                                                        container.value("name", ""),
                                                        std::string(spec.status().message())));
}

}  // namespace lockstep::local
