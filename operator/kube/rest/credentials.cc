#include "operator/kube/rest/credentials.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/read_file.h"
#include "base/status.h"

namespace lockstep::kube {
namespace {

// A kubelet renews tokens long before they expire; Kubernetes asks clients to reload once a minute.
constexpr Duration kTokenAge = std::chrono::minutes(1);
// A credential that is about to expire could be refused by the time it arrives.
constexpr Duration kExpirySlack = std::chrono::seconds(10);

absl::StatusOr<std::string> TextOrFile(const std::string& text, const std::string& file,
                                       const char* what) {
  if (!text.empty() || file.empty()) return text;
  return ReadFile(file, what);
}

}  // namespace

Credentials::Credentials(RestConfig config, const Clock& clock)
    : config_(std::move(config)), clock_(clock) {}

bool Credentials::PluginGivesToken() const {
  return config_.exec && config_.token.empty() && config_.token_file.empty();
}

bool Credentials::PluginGivesCertificate() const {
  return config_.exec && config_.client_certificate_pem.empty() &&
         config_.client_certificate_file.empty();
}

absl::StatusOr<std::string> Credentials::BearerToken() {
  const std::lock_guard lock(mutex_);
  ExecCredential credential;
  if (PluginGivesToken() || PluginGivesCertificate()) {
    LOCKSTEP_ASSIGN_OR_RETURN(credential, ExecLocked());
  }
  if (!config_.token_file.empty()) return TokenOfFileLocked();
  return config_.token.empty() ? credential.token : config_.token;
}

absl::StatusOr<TlsMaterial> Credentials::Tls() {
  TlsMaterial tls;
  LOCKSTEP_ASSIGN_OR_RETURN(
      tls.ca, TextOrFile(config_.ca_pem, config_.ca_file, "the cluster's certificate authority"));
  const bool has_ca = !config_.ca_pem.empty() || !config_.ca_file.empty();
  if (has_ca && tls.ca.find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::FailedPreconditionError(fmt::format(
        "the cluster's certificate authority{}: found nothing, expected certificates in PEM",
        config_.ca_file.empty() ? "" : ", " + config_.ca_file));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      tls.certificate, TextOrFile(config_.client_certificate_pem, config_.client_certificate_file,
                                  "the client certificate"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      tls.key, TextOrFile(config_.client_key_pem, config_.client_key_file, "the client key"));
  const std::lock_guard lock(mutex_);
  if (PluginGivesCertificate()) {
    LOCKSTEP_ASSIGN_OR_RETURN(ExecCredential credential, ExecLocked());
    tls.certificate = std::move(credential.client_certificate_pem);
    tls.key = std::move(credential.client_key_pem);
  } else if (!certificate_) {
    certificate_ = tls.certificate;
  }
  return tls;
}

std::uint64_t Credentials::CertificateNumber() {
  const std::lock_guard lock(mutex_);
  return certificate_number_;
}

bool Credentials::Renew(const std::string& token, std::uint64_t certificate) {
  const std::lock_guard lock(mutex_);
  const bool is_latest = certificate == certificate_number_;
  if (is_latest) RereadCertificateLocked();
  bool renewed = certificate != certificate_number_;
  if (!config_.token_file.empty()) {
    if (file_token_ == token) file_read_.reset();
    renewed = true;
  }
  if (PluginGivesToken() || PluginGivesCertificate()) {
    const bool is_its_token = exec_ && (!PluginGivesToken() || exec_->token == token);
    if (is_latest && is_its_token) exec_.reset();
    renewed = true;
  }
  return renewed;
}

void Credentials::NoteCertificateLocked(const std::string& pem) {
  if (certificate_ && *certificate_ != pem) ++certificate_number_;
  certificate_ = pem;
}

// The server knows connections that are open by the certificate that was there when they began.
void Credentials::RereadCertificateLocked() {
  const bool is_file =
      config_.client_certificate_pem.empty() && !config_.client_certificate_file.empty();
  if (!is_file) return;
  const absl::StatusOr<std::string> pem =
      ReadFile(config_.client_certificate_file, "the client certificate");
  if (pem.ok()) NoteCertificateLocked(*pem);  // else the refusal says more
}

absl::StatusOr<std::string> Credentials::TokenOfFileLocked() {
  const SteadyTime now = clock_.SteadyNow();
  if (file_read_ && now - *file_read_ < kTokenAge) return file_token_;
  absl::StatusOr<std::string> text = ReadFile(config_.token_file, "the token");
  if (!text.ok() && file_token_.empty()) return text.status();
  if (text.ok()) {
    while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
    file_token_ = *std::move(text);
  } else {
    LogWarning("the token file cannot be read; the last token is kept",
               {{"error", text.status().ToString()}});
  }
  file_read_ = now;
  return file_token_;
}

absl::StatusOr<ExecCredential> Credentials::ExecLocked() {
  if (exec_ && (!exec_->expires || clock_.Now() + kExpirySlack < *exec_->expires)) return *exec_;
  LOCKSTEP_ASSIGN_OR_RETURN(exec_, RunExecPlugin(config_));
  if (PluginGivesCertificate()) NoteCertificateLocked(exec_->client_certificate_pem);
  return *exec_;
}

}  // namespace lockstep::kube
