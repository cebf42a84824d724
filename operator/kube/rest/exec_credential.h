// Credentials printed by a program: the exec plugins of kubeconfigs (client.authentication.k8s.io
// v1 and v1beta1), with which cloud providers log users in.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::kube {

// A token, a client certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string client_certificate_pem, client_key_pem;
  std::optional<Time> expires;  // nullopt: never
};

// Runs config.exec and waits for it. On failure returns Unauthenticated, which names the program
// and its fault, with its install hint if there is no such program; or ReadFile's error if the
// plugin needs the CA file and it cannot be read.
absl::StatusOr<ExecCredential> RunExecPlugin(const RestConfig& config);

// Parses what a plugin printed. Pure. InvalidArgument says what was found and what is expected.
absl::StatusOr<ExecCredential> ParseExecCredential(const std::string& text,
                                                   const std::string& api_version);

}  // namespace lockstep::kube
