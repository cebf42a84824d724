// Our credentials for an API server: tokens and certificates, renewed as they expire. Thread-safe.
#pragma once

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

  // Call when the server has refused `token`: discards it, unless it has been replaced already, so
  // that the next BearerToken() reads a new one. False if the token has no source to reread.
  bool Renew(const std::string& token);

 private:
  absl::StatusOr<std::string> TokenOfFileLocked();
  absl::StatusOr<ExecCredential> ExecLocked();

  const RestConfig config_;
  const Clock& clock_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::string file_token_;
  std::optional<SteadyTime> file_read_;
  std::optional<ExecCredential> exec_;
};

}  // namespace lockstep::kube
