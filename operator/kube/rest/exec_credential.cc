#include "operator/kube/rest/exec_credential.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "base/read_file.h"
#include "base/rfc3339.h"
#include "base/status.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/run_program.h"

namespace lockstep::kube {
namespace {

// Some plugins open a browser first; no caller should wait longer than this.
constexpr Duration kPluginTimeout = std::chrono::minutes(1);

// Returns KUBERNETES_EXEC_INFO, the plugin's input.
absl::StatusOr<std::string> ExecInfo(const RestConfig& config) {
  Object info = {{"apiVersion", config.exec->api_version},
                 {"kind", "ExecCredential"},
                 {"spec", {{"interactive", false}}}};
  if (config.exec->provide_cluster_info) {
    Object& cluster = info["spec"]["cluster"];
    cluster = {{"server", config.server}};
    std::string ca = config.ca_pem;
    if (ca.empty() && !config.ca_file.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(ca,
                                ReadFile(config.ca_file, "the cluster's certificate authority"));
    }
    if (!ca.empty()) cluster["certificate-authority-data"] = absl::Base64Escape(ca);
    if (!config.tls_server_name.empty()) cluster["tls-server-name"] = config.tls_server_name;
    if (config.insecure_skip_tls_verify) cluster["insecure-skip-tls-verify"] = true;
  }
  return info.dump();
}

}  // namespace

absl::StatusOr<ExecCredential> RunExecPlugin(const RestConfig& config) {
  const ExecCredentialSource& source = *config.exec;
  std::map<std::string, std::string> env = source.env;
  LOCKSTEP_ASSIGN_OR_RETURN(env["KUBERNETES_EXEC_INFO"], ExecInfo(config));
  const auto printed = RunProgram(source.command, source.args, env, kPluginTimeout);
  const auto refuse = [](const absl::Status& status, const std::string& hint) {
    return absl::UnauthenticatedError(fmt::format(
        "credential plugin {}{}{}", std::string(status.message()), hint.empty() ? "" : "\n", hint));
  };
  if (!printed.ok()) {
    return refuse(printed.status(), absl::IsNotFound(printed.status()) ? source.install_hint : "");
  }
  auto credential = ParseExecCredential(*printed, source.api_version);
  if (!credential.ok()) {
    return absl::UnauthenticatedError(fmt::format("credential plugin {}: {}", source.command,
                                                  std::string(credential.status().message())));
  }
  return credential;
}

absl::StatusOr<ExecCredential> ParseExecCredential(const std::string& text,
                                                   const std::string& api_version) {
  const auto refuse = [](const std::string& why) { return absl::InvalidArgumentError(why); };
  const absl::StatusOr<Object> printed = ParseObject(text);
  if (!printed.ok()) return refuse("it printed no JSON");
  if (TextMember(*printed, "kind") != "ExecCredential") {
    return refuse("it printed no ExecCredential");
  }
  if (TextMember(*printed, "apiVersion") != api_version) {
    return refuse(fmt::format("it printed apiVersion \"{}\", expected \"{}\"",
                              TextMember(*printed, "apiVersion"), api_version));
  }
  const Object& status = Member(*printed, "status");
  if (!status.is_object()) return refuse("it printed no status");
  ExecCredential credential{TextMember(status, "token"),
                            TextMember(status, "clientCertificateData"),
                            TextMember(status, "clientKeyData"), std::nullopt};
  if (credential.client_certificate_pem.empty() != credential.client_key_pem.empty()) {
    return refuse("it printed only one of clientCertificateData and clientKeyData");
  }
  if (credential.token.empty() && credential.client_certificate_pem.empty()) {
    return refuse("it printed neither a token nor a client certificate");
  }
  if (const std::string expires = TextMember(status, "expirationTimestamp"); !expires.empty()) {
    credential.expires = ParseExpiry(expires);
    if (!credential.expires) {
      return refuse(fmt::format("expirationTimestamp: found \"{}\", expected RFC 3339", expires));
    }
  }
  return credential;
}

}  // namespace lockstep::kube
