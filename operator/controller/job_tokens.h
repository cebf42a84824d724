// The operator's key, and the tokens of jobs, which are made of it: whoever has the key knows the
// token of every job, and nothing has to be read to know it again.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "operator/kube/client.h"

namespace lockstep::controller {

// Thread-safe.
class JobTokens {
 public:
  // Client and clock outlive it. `key` names the Secret that holds the operator's key.
  JobTokens(kube::Client& client, const Clock& clock, kube::Key key);

  // Reads the key, or makes it if there is none; of several operators that try to, all end with
  // the same one. At once if it is known already, else it blocks for up to three API calls. Errors
  // are those of the calls, or InvalidArgument if the Secret holds no key; the message says what
  // becomes of jobs meanwhile. For a second after a failure all are told of it, then it is tried
  // again.
  absl::Status Load();
  // HMAC-SHA256(key, uid) in hexadecimal. FailedPrecondition before Load has succeeded; never
  // blocks.
  absl::StatusOr<std::string> TextFor(const std::string& job_uid) const;
  // The same to prove with; no token before Load has succeeded.
  api::JobToken For(const std::string& job_uid) const;

 private:
  absl::StatusOr<std::string> ReadOrMake();

  kube::Client& client_;
  const Clock& clock_;
  const kube::Key name_;
  std::mutex loading_;    // one caller asks the API server, the others wait for what it learns
  absl::Status failure_;  // of the last try; guarded by loading_
  std::optional<SteadyTime> retry_at_;  // none is made before; guarded by loading_
  mutable std::mutex mutex_;
  std::optional<std::string> key_;  // guarded by mutex_
};

}  // namespace lockstep::controller
