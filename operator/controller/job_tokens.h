// The operator's key, and the job tokens derived from it. Whoever has the key can derive the token
// of every job, so tokens need not be stored to be known again.
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
  // `client` and `clock` must outlive it. `key` names the Secret that holds the operator's key.
  JobTokens(kube::Client& client, const Clock& clock, kube::Key key);

  // Loads the key, or creates it if there is none; of several operators that try, all end with the
  // same one. Returns at once if the key is loaded, else blocks for up to three API calls. Returns
  // the failed call's error, or InvalidArgument if the Secret holds no key; the message says what
  // that means for jobs. For one second after a failure all callers get that error, then the next
  // call tries again.
  absl::Status Load();
  bool IsLoaded() const;  // never blocks
  // Returns HMAC-SHA256(key, uid) in hexadecimal, or FailedPrecondition before Load has succeeded.
  // Never blocks.
  absl::StatusOr<std::string> TextFor(const std::string& job_uid) const;
  // Returns the same as a JobToken that can prove itself; an unset one before Load has succeeded.
  api::JobToken For(const std::string& job_uid) const;

 private:
  absl::StatusOr<std::string> ReadOrMake();

  kube::Client& client_;
  const Clock& clock_;
  const kube::Key name_;
  std::mutex loading_;    // one caller asks the API server while the others wait for its result
  absl::Status failure_;  // of the latest try; guarded by loading_
  std::optional<SteadyTime> retry_at_;  // no call is made before; guarded by loading_
  mutable std::mutex mutex_;
  std::optional<std::string> key_;  // guarded by mutex_
};

}  // namespace lockstep::controller
