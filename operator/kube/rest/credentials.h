// Who we are to an API server: tokens and certificates, renewed as they expire. Thread-safe.
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
  // The clock outlives it.
  Credentials(RestConfig config, const Clock& clock);

  // Empty: none. A token file is read again once a minute and the last token kept if it cannot be
  // read; an exec plugin is run again when what it gave expires.
  absl::StatusOr<std::string> BearerToken();

  // For a new connection: files are read again.
  absl::StatusOr<TlsMaterial> Tls();

  // The server refused `token`: the next BearerToken reads anew, unless somebody already has.
  // False if there is nowhere to read from.
  bool Renew(const std::string& token);

 private:
  absl::StatusOr<std::string> TokenOfFileLocked();
  absl::StatusOr<ExecCredential> ExecLocked();

  const RestConfig config_;
  const Clock& clock_;
  std::mutex mutex_;
  // All below are guarded by mutex_.
  std::string file_token_;
  std::optional<SteadyTime> file_read_;
  std::optional<ExecCredential> exec_;
};

}  // namespace lockstep::kube
