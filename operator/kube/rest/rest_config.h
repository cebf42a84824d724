// Where an API server is and how to prove who we are: from a pod's service account or a kubeconfig.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::kube {

// A program that prints credentials (client.authentication.k8s.io/v1 and v1beta1).
struct ExecCredentialSource {
  std::string api_version, command, install_hint;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;
  bool provide_cluster_info = false;
};

// PEM texts stand where the kubeconfig had data, file names where it named files; files are read
// again for new connections, a token file at least once a minute.
struct RestConfig {
  std::string server;  // https://host:port[/prefix]; http only without credentials
  std::string namespace_name = "default";  // of the context
  std::string pod_namespace;               // where this process is a pod; empty outside of one
  std::string ca_pem, ca_file;             // both empty: the system's roots
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string client_certificate_pem, client_certificate_file;
  std::string client_key_pem, client_key_file;
  std::string token, token_file;
  std::optional<ExecCredentialSource> exec;
};

// From a pod's environment and service account, whose files lie in `directory`. NotFound outside a
// pod.
absl::StatusOr<RestConfig> InClusterConfig(
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

// `path` empty: $KUBECONFIG (files merged as kubectl does), else ~/.kube/config. `context` empty:
// the current one. Errors name the file and the entry.
absl::StatusOr<RestConfig> LoadKubeconfig(const std::string& path, const std::string& context = "");
// Of one file's text; relative file names are looked up in `directory`.
absl::StatusOr<RestConfig> ParseKubeconfig(const std::string& text, const std::string& directory,
                                           const std::string& context = "");

}  // namespace lockstep::kube
