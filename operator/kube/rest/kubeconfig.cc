#include "operator/kube/rest/kubeconfig.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "api/v1/yaml.h"
#include "base/status.h"
#include "operator/kube/object.h"

namespace lockstep::kube {
namespace {

// One entry of a list, such as the user "admin": reads its members by name. Errors name the entry
// and the member. An absent member reads as empty or false.
class Entry {
 public:
  Entry(const Object& fields, std::string where, const std::string& directory)
      : fields_(fields), where_(std::move(where)), directory_(directory) {}

  absl::StatusOr<std::string> Text(const char* key) const {
    const Object* value = Find(key);
    if (value == nullptr) return std::string();
    if (!value->is_string()) return Refuse(key, "expected a string");
    return value->get<std::string>();
  }
  absl::StatusOr<bool> Flag(const char* key) const {
    const Object* value = Find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) return Refuse(key, "expected true or false");
    return value->get<bool>();
  }
  absl::StatusOr<std::string> File(const char* key) const {
    LOCKSTEP_ASSIGN_OR_RETURN(std::string path, Text(key));
    if (!path.empty()) path = (std::filesystem::path(directory_) / path).lexically_normal();
    return path;
  }
  absl::StatusOr<std::string> Data(const char* key) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string encoded, Text(key));
    std::string data;
    if (!absl::Base64Unescape(encoded, &data)) return Refuse(key, "expected base64");
    return data;
  }
  // Fails if the member is present. For members that other clients support and this one does not,
  // where ignoring them would mislead.
  absl::Status RefuseMember(const char* key, const char* why) const {
    return Find(key) == nullptr ? absl::OkStatus() : Refuse(key, why);
  }
  const Object* Find(const char* key) const {
    const auto it = fields_.find(key);
    return it == fields_.end() || it->is_null() ? nullptr : &*it;
  }
  absl::Status Refuse(const char* key, const std::string& why) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}: {}", where_, key, why));
  }
  const std::string& where() const { return where_; }
  const std::string& directory() const { return directory_; }

 private:
  const Object& fields_;
  const std::string where_;
  const std::string& directory_;
};

absl::StatusOr<RestConfig> ReadCluster(const Entry& entry) {
  RestConfig config;
  LOCKSTEP_RETURN_IF_ERROR(
      entry.RefuseMember("proxy-url", "connections through a proxy are not supported"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.server, entry.Text("server"));
  if (config.server.empty()) return entry.Refuse("server", "expected a URL, found nothing");
  LOCKSTEP_ASSIGN_OR_RETURN(config.ca_file, entry.File("certificate-authority"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.ca_pem, entry.Data("certificate-authority-data"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.tls_server_name, entry.Text("tls-server-name"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.insecure_skip_tls_verify,
                            entry.Flag("insecure-skip-tls-verify"));
  return config;
}

absl::Status ReadExecEnv(const Entry& entry, ExecCredentialSource& source) {
  const Object* env = entry.Find("env");
  if (env == nullptr) return absl::OkStatus();
  if (!env->is_array()) return entry.Refuse("env", "expected a list");
  for (const Object& variable : *env) {
    if (!variable.is_object()) return entry.Refuse("env", "expected entries with name and value");
    const Entry named(variable, entry.where() + ": env", entry.directory());
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string name, named.Text("name"));
    LOCKSTEP_ASSIGN_OR_RETURN(source.env[name], named.Text("value"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecCredentialSource> ReadExec(const Entry& entry) {
  ExecCredentialSource source;
  LOCKSTEP_ASSIGN_OR_RETURN(source.api_version, entry.Text("apiVersion"));
  if (source.api_version != "client.authentication.k8s.io/v1" &&
      source.api_version != "client.authentication.k8s.io/v1beta1") {
    return entry.Refuse("apiVersion",
                        fmt::format("found \"{}\", expected client.authentication.k8s.io/v1 or "
                                    "client.authentication.k8s.io/v1beta1",
                                    source.api_version));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(source.command, entry.Text("command"));
  if (source.command.empty()) return entry.Refuse("command", "expected a program, found nothing");
  // A bare name is looked up in PATH; a relative path is resolved against the file's directory.
  if (source.command.find('/') != std::string::npos) {
    LOCKSTEP_ASSIGN_OR_RETURN(source.command, entry.File("command"));
  }
  if (const Object* args = entry.Find("args")) {
    if (!args->is_array()) return entry.Refuse("args", "expected a list");
    for (const Object& arg : *args) {
      if (!arg.is_string()) return entry.Refuse("args", "expected strings");
      source.args.push_back(arg.get<std::string>());
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(ReadExecEnv(entry, source));
  LOCKSTEP_ASSIGN_OR_RETURN(source.install_hint, entry.Text("installHint"));
  LOCKSTEP_ASSIGN_OR_RETURN(source.provide_cluster_info, entry.Flag("provideClusterInfo"));
  return source;
}

absl::StatusOr<RestConfig> ReadUser(const Entry& entry) {
  RestConfig config;
  LOCKSTEP_RETURN_IF_ERROR(entry.RefuseMember(
      "username", "the API server takes no passwords; use a token or a certificate"));
  LOCKSTEP_RETURN_IF_ERROR(
      entry.RefuseMember("auth-provider", "Kubernetes 1.26 removed these; use an exec plugin"));
  LOCKSTEP_RETURN_IF_ERROR(entry.RefuseMember("as", "impersonation is not supported"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.token, entry.Text("token"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.token_file, entry.File("tokenFile"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.client_certificate_file, entry.File("client-certificate"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.client_certificate_pem, entry.Data("client-certificate-data"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.client_key_file, entry.File("client-key"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.client_key_pem, entry.Data("client-key-data"));
  if (const Object* exec = entry.Find("exec")) {
    if (!exec->is_object()) return entry.Refuse("exec", "expected command and args");
    const Entry plugin(*exec, entry.where() + ": exec", entry.directory());
    LOCKSTEP_ASSIGN_OR_RETURN(config.exec, ReadExec(plugin));
  }
  return config;
}

// Calls visit(name, Entry) for each entry of the list, such as {name: admin, user: {…}} of users.
template <typename Visit>
absl::Status ForEachEntry(const Object& file, const char* list, const char* member,
                          const std::string& source, const std::string& directory, Visit visit) {
  const auto entries = file.find(list);
  if (entries == file.end() || entries->is_null()) return absl::OkStatus();
  const auto refuse = [&](const char* expected) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: expected a list of entries with name and {}", source, list, expected));
  };
  if (!entries->is_array()) return refuse(member);
  static const Object kNothing = Object::object();
  for (const Object& entry : *entries) {
    if (!entry.is_object()) return refuse(member);
    const auto name = entry.find("name");
    if (name == entry.end() || !name->is_string()) return refuse(member);
    const auto found = entry.find(member);
    const bool empty = found == entry.end() || found->is_null();
    if (!empty && !found->is_object()) return refuse(member);
    const std::string where =
        fmt::format("{}: {} \"{}\"", source, member, name->template get<std::string>());
    LOCKSTEP_RETURN_IF_ERROR(visit(name->template get<std::string>(),
                                   Entry(empty ? kNothing : *found, where, directory)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Object> OnlyDocument(const std::string& text, const std::string& source) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<Object> documents, api::ParseYaml(text, source));
  if (documents.empty()) return Object::object();
  if (documents.size() > 1 || !documents[0].is_object()) {
    return absl::InvalidArgumentError(fmt::format("{}: expected one Config", source));
  }
  return std::move(documents[0]);
}

}  // namespace

absl::StatusOr<Kubeconfig> ReadKubeconfig(const std::string& text, const std::string& source,
                                          const std::string& directory) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Object file, OnlyDocument(text, source));
  Kubeconfig kubeconfig;
  LOCKSTEP_ASSIGN_OR_RETURN(kubeconfig.current_context,
                            Entry(file, source, directory).Text("current-context"));
  LOCKSTEP_RETURN_IF_ERROR(ForEachEntry(file, "clusters", "cluster", source, directory,
                                        [&](const std::string& name, const Entry& entry) {
                                          kubeconfig.clusters.emplace(name, ReadCluster(entry));
                                          return absl::OkStatus();
                                        }));
  LOCKSTEP_RETURN_IF_ERROR(ForEachEntry(file, "users", "user", source, directory,
                                        [&](const std::string& name, const Entry& entry) {
                                          kubeconfig.users.emplace(name, ReadUser(entry));
                                          return absl::OkStatus();
                                        }));
  LOCKSTEP_RETURN_IF_ERROR(
      ForEachEntry(file, "contexts", "context", source, directory,
                   [&](const std::string& name, const Entry& entry) -> absl::Status {
                     Kubeconfig::Context context{source, "", "", ""};
                     LOCKSTEP_ASSIGN_OR_RETURN(context.cluster, entry.Text("cluster"));
                     LOCKSTEP_ASSIGN_OR_RETURN(context.user, entry.Text("user"));
                     LOCKSTEP_ASSIGN_OR_RETURN(context.namespace_name, entry.Text("namespace"));
                     kubeconfig.contexts.emplace(name, std::move(context));
                     return absl::OkStatus();
                   }));
  return kubeconfig;
}

void MergeKubeconfig(Kubeconfig& into, Kubeconfig from) {
  if (into.current_context.empty()) into.current_context = std::move(from.current_context);
  into.contexts.merge(from.contexts);
  into.clusters.merge(from.clusters);
  into.users.merge(from.users);
}

absl::StatusOr<RestConfig> ChooseContext(const Kubeconfig& kubeconfig, const std::string& source,
                                         const std::string& context) {
  const std::string& wanted = context.empty() ? kubeconfig.current_context : context;
  if (wanted.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no current-context, and no context was selected", source));
  }
  const auto chosen = kubeconfig.contexts.find(wanted);
  if (chosen == kubeconfig.contexts.end()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: there is no context \"{}\"", source, wanted));
  }
  const auto& [file, cluster_name, user_name, namespace_name] = chosen->second;
  const auto cluster = kubeconfig.clusters.find(cluster_name);
  if (cluster == kubeconfig.clusters.end()) {
    return absl::InvalidArgumentError(
        fmt::format("{}: context \"{}\" names cluster \"{}\", which does not exist", file, wanted,
                    cluster_name));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(RestConfig config, cluster->second);
  if (!namespace_name.empty()) config.namespace_name = namespace_name;
  if (user_name.empty()) return config;  // anonymous
  const auto user = kubeconfig.users.find(user_name);
  if (user == kubeconfig.users.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: context \"{}\" names user \"{}\", which does not exist", file, wanted, user_name));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const RestConfig who, user->second);
  config.client_certificate_pem = who.client_certificate_pem;
  config.client_certificate_file = who.client_certificate_file;
  config.client_key_pem = who.client_key_pem;
  config.client_key_file = who.client_key_file;
  config.token = who.token;
  config.token_file = who.token_file;
  config.exec = who.exec;
  return config;
}

}  // namespace lockstep::kube
