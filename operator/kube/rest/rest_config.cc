#include "operator/kube/rest/rest_config.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/read_file.h"
#include "base/status.h"
#include "operator/kube/rest/kubeconfig.h"

namespace lockstep::kube {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string DirectoryOf(const std::string& path) {
  return std::filesystem::absolute(path).parent_path();
}

// Splits a list in the format of PATH.
std::vector<std::string> SplitPaths(const std::string& list) {
  std::vector<std::string> paths;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    if (end > begin) paths.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return paths;
}

// Like kubectl, skips files that do not exist, but at least one must.
absl::StatusOr<Kubeconfig> ReadMerged(const std::vector<std::string>& paths) {
  Kubeconfig merged;
  bool found = false;
  for (const std::string& path : paths) {
    const auto text = ReadFile(path, "the kubeconfig");
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    LOCKSTEP_ASSIGN_OR_RETURN(Kubeconfig file, ReadKubeconfig(*text, path, DirectoryOf(path)));
    MergeKubeconfig(merged, std::move(file));
    found = true;
  }
  if (!found) {
    return absl::NotFoundError(
        fmt::format("$KUBECONFIG: found no file of {}", fmt::join(paths, ", ")));
  }
  return merged;
}

struct Found {
  Kubeconfig kubeconfig;
  std::string source;  // for errors
};

// `path` is empty for $KUBECONFIG, else ~/.kube/config.
absl::StatusOr<Found> FindKubeconfig(const std::string& path) {
  if (!path.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, "the kubeconfig"));
    LOCKSTEP_ASSIGN_OR_RETURN(Kubeconfig file, ReadKubeconfig(text, path, DirectoryOf(path)));
    return Found{std::move(file), path};
  }
  if (const std::string list = Env("KUBECONFIG"); !list.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(Kubeconfig merged, ReadMerged(SplitPaths(list)));
    return Found{std::move(merged), "$KUBECONFIG"};
  }
  const std::string home = Env("HOME");
  if (home.empty()) {
    return absl::NotFoundError("no kubeconfig: neither $KUBECONFIG nor $HOME is set");
  }
  return FindKubeconfig(home + "/.kube/config");
}

// Checks that the kubelet has mounted the file. Its absence is not NotFound, which says that this
// is no pod.
absl::Status CheckMounted(const std::string& path, std::string_view what) {
  const absl::Status status = ReadFile(path, what).status();
  if (!absl::IsNotFound(status)) return status;
  return absl::FailedPreconditionError(
      fmt::format("{}; every pod has this file unless automountServiceAccountToken is false: "
                  "expected the file, or --kubeconfig",
                  std::string(status.message())));
}

// An IPv6 address cannot be used (http_transport.cc); every API server's certificate contains this
// name.
std::string HostOf(const std::string& host) {
  return host.find(':') == std::string::npos ? host : "kubernetes.default.svc";
}

}  // namespace

absl::StatusOr<RestConfig> InClusterConfig(const std::string& directory) {
  const std::string host = Env("KUBERNETES_SERVICE_HOST"), port = Env("KUBERNETES_SERVICE_PORT");
  if (host.empty() || port.empty()) {
    return absl::NotFoundError(
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod");
  }
  RestConfig config;
  config.server = fmt::format("https://{}:{}", HostOf(host), port);
  config.token_file = directory + "/token";
  config.ca_file = directory + "/ca.crt";
  // A pod without a service account token cannot authenticate: fail early.
  LOCKSTEP_RETURN_IF_ERROR(CheckMounted(config.token_file, "the service account's token"));
  LOCKSTEP_RETURN_IF_ERROR(CheckMounted(config.ca_file, "the service account's authority"));
  if (auto text = ReadFile(directory + "/namespace", "the pod's namespace"); text.ok()) {
    while (text->ends_with('\n')) text->pop_back();
    if (!text->empty()) config.namespace_name = config.pod_namespace = *std::move(text);
  }
  return config;
}

absl::StatusOr<RestConfig> LoadKubeconfig(const std::string& path, const std::string& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Found found, FindKubeconfig(path));
  return ChooseContext(found.kubeconfig, found.source, context);
}

absl::StatusOr<std::vector<std::string>> ContextNames(const std::string& path) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Found found, FindKubeconfig(path));
  std::vector<std::string> names;
  for (const auto& [name, context] : found.kubeconfig.contexts) names.push_back(name);
  return names;
}

absl::StatusOr<RestConfig> ParseKubeconfig(const std::string& text, const std::string& directory,
                                           const std::string& context) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Kubeconfig file, ReadKubeconfig(text, "kubeconfig", directory));
  return ChooseContext(file, "kubeconfig", context);
}

absl::Status CheckRestConfig(const RestConfig& config) {
  const bool has_certificate =
      !config.client_certificate_pem.empty() || !config.client_certificate_file.empty();
  const bool has_key = !config.client_key_pem.empty() || !config.client_key_file.empty();
  const bool has_ca = !config.ca_pem.empty() || !config.ca_file.empty();
  if (has_certificate != has_key) {
    return absl::InvalidArgumentError(
        fmt::format("server {}: there is a client {} without a client {}", config.server,
                    has_key ? "key" : "certificate", has_key ? "certificate" : "key"));
  }
  if (has_ca && config.insecure_skip_tls_verify) {
    return absl::InvalidArgumentError(fmt::format(
        "server {}: a certificate authority and insecure-skip-tls-verify exclude each other",
        config.server));
  }
  const bool has_secret =
      has_key || !config.token.empty() || !config.token_file.empty() || config.exec.has_value();
  if (has_secret && !config.server.starts_with("https://")) {
    return absl::InvalidArgumentError(
        fmt::format("server {}: credentials are sent over https only", config.server));
  }
  return absl::OkStatus();
}

}  // namespace lockstep::kube
