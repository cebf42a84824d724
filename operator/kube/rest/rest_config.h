// The address of an API server and our credentials, from a pod's service account or a kubeconfig.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::kube {

// Where Kubernetes mounts a pod's service account.
inline constexpr char kServiceAccountDirectory[] = "/var/run/secrets/kubernetes.io/serviceaccount";

// A program that prints credentials (client.authentication.k8s.io/v1 and v1beta1).
struct ExecCredentialSource {
  std::string api_version, command, install_hint;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  bool provide_cluster_info = false;
};

// A *_pem member holds data from the kubeconfig; a *_file member names a file. Files are reread for
// new connections, a token file at least once a minute.
struct RestConfig {
  std::string server;  // https://host:port[/prefix]; http only without credentials
  std::string namespace_name = "default";  // of the context
  std::string pod_namespace;               // this pod's namespace; empty outside a pod
  std::string ca_pem, ca_file;             // both empty: the system's roots
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string client_certificate_pem, client_certificate_file;
  std::string client_key_pem, client_key_file;
  std::string token, token_file;
  std::optional<ExecCredentialSource> exec;
};

// Checks that `config` is usable. InvalidArgument names the server: a certificate without a key or
// the reverse, an authority with insecure_skip_tls_verify, or credentials without https.
absl::Status CheckRestConfig(const RestConfig& config);

// Reads a pod's environment and its service account's files in `directory`. NotFound outside a pod;
// FailedPrecondition in a pod without a token or an authority.
absl::StatusOr<RestConfig> InClusterConfig(const std::string& directory = kServiceAccountDirectory);

// An empty `path` means $KUBECONFIG (files merged as kubectl does), else ~/.kube/config. An empty
// `context` selects the current one. Errors name the file and the entry.
absl::StatusOr<RestConfig> LoadKubeconfig(const std::string& path, const std::string& context = "");
// Returns the names of the contexts in the files that LoadKubeconfig would read. Errors: its own.
absl::StatusOr<std::vector<std::string>> ContextNames(const std::string& path);
// Parses one file's text; relative file names are resolved against `directory`.
absl::StatusOr<RestConfig> ParseKubeconfig(const std::string& text, const std::string& directory,
                                           const std::string& context = "");

}  // namespace lockstep::kube
