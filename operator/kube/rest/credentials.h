// Our credentials for an API server: tokens and certificates, renewed as they expire. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "operator/kube/rest/exec_credential.h"
#include "operator/kube/rest/http_transport.h"
#include "operator/kube/rest/rest_config.h"

namespace lockstep::kube {

class Credentials {
 public:
  // The clock must outlive this object.
  Credentials(RestConfig config, const Clock& clock);

  // Returns the token; empty if there is none. Rereads a token file once a minute and keeps the
  // last token if the file cannot be read. Reruns an exec plugin when its credential expires.
  // Errors: ReadFile's if the first token cannot be read; RunExecPlugin's.
  absl::StatusOr<std::string> BearerToken();

  // Returns the certificates for a new connection. Rereads files. FailedPrecondition: the authority
  // is empty. Other errors: ReadFile's, RunExecPlugin's.
  absl::StatusOr<TlsMaterial> Tls();

  // Returns the number of the client certificate, for HttpRequest. It grows when the certificate
  // has been replaced: by an exec plugin, which BearerToken() reruns, or in its file, if Renew()
  // has found that. Call it after BearerToken().
  std::uint64_t CertificateNumber();

  // Call when the server has refused a request with this token and certificate: discards the token
  // and an exec plugin's credential, unless they have been replaced already, so that the next
  // BearerToken() gets new ones. False if a repeated request would have the same ones.
  bool Renew(const std::string& token, std::uint64_t certificate);

 private:
  bool PluginGivesToken() const;
  bool PluginGivesCertificate() const;
  absl::StatusOr<std::string> TokenOfFileLocked();
  absl::StatusOr<ExecCredential> ExecLocked();
  void NoteCertificateLocked(const std::string& pem);
  void RereadCertificateLocked();

  const RestConfig config_;
  const Clock& clock_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string file_token_;
  std::optional<SteadyTime> file_read_;
  std::optional<ExecCredential> exec_;
  std::optional<std::string> certificate_;  // PEM; of the oldest connections with the number
  std::uint64_t certificate_number_ = 0;
};

}  // namespace lockstep::kube
