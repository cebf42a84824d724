// Whether a caller of the rendezvous knows the job's token, and how many did not.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/proto/rendezvous.pb.h"
#include "api/proto/trainer_status.pb.h"
#include "api/v1/job_token.h"
#include "base/clock.h"

namespace lockstep::train {

// Not thread-safe. Without a token every caller is accepted.
class CallerCheck {
 public:
  CallerCheck(api::JobToken token, const Clock& clock);

  // The nonce that a new stream's proofs, and those of Put and Get beside it, are made for.
  const std::string& Challenge(std::uint64_t session);
  void Forget(std::uint64_t session) { nonces_.erase(session); }

  bool AcceptsJoin(std::uint64_t session, const proto::Join& join);
  // `content`: of api::PutProofContent or api::GetProofContent.
  bool AcceptsStoreCall(std::uint64_t session, const std::string& content,
                        const std::string& proof);
  // A request without proof is the ordinary way to ask for a nonce, and no refusal.
  bool AcceptsStatusCall(const proto::GetStatusRequest& request);
  std::string StatusNonce() const;  // empty without a token

  std::int64_t refusals() const { return refusals_; }

 private:
  bool Refuse(const char* call);
  std::int64_t Second() const;
  std::string StatusNonceOf(std::int64_t second) const;

  const api::JobToken token_;
  const std::string status_secret_;  // nonces of GetStatus are made with it: none is stored
  const Clock& clock_;
  std::map<std::uint64_t, std::string> nonces_;  // by session
  std::int64_t refusals_ = 0;
  SteadyTime next_log_{};
};

}  // namespace lockstep::train
