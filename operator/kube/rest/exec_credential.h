// Credentials that a program prints: the exec plugins of kubeconfigs (client.authentication.k8s.io
// v1 and v1beta1), by which clouds log their users in.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::kube {

struct ExecCredential {
  std::string token;                                   // or
  std::string client_certificate_pem, client_key_pem;  // both
  std::optional<Time> expires;                         // nothing: never
};

// Runs config.exec; waits for it. Unauthenticated names the program and what it did wrong, with its
// install hint if there is no such program.
absl::StatusOr<ExecCredential> RunExecPlugin(const RestConfig& config);

// Of what a plugin printed. Pure. Errors say what was found and what is expected.
absl::StatusOr<ExecCredential> ParseExecCredential(const std::string& text,
                                                   const std::string& api_version);

}  // namespace lockstep::kube
