// Authenticates callers of the rendezvous by the job's token, and counts those it refuses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "api/proto/rendezvous.pb.h"
#include "api/proto/trainer_status.pb.h"
#include "api/v1/job_token.h"
#include "base/clock.h"
#include "trainer/rendezvous/gate/refusals.h"

namespace lockstep::train {

// Not thread-safe. Without a token every caller is accepted.
class CallerCheck {
 public:
  // `listens_at`: this server's address, as in IsMeant.
  CallerCheck(api::JobToken token, std::string listens_at, const Clock& clock);

  // Returns the nonce of a new stream: its Join, Put and Get must carry proofs for it.
  const std::string& Challenge(std::uint64_t session);
  void Forget(std::uint64_t session) { nonces_.erase(session); }

  // These return false also if the caller has dialled another address than this server's.
  bool AcceptsJoin(std::uint64_t session, const proto::Join& join);
  // Proves to the sender of an accepted Join that this is the job's leader. Empty without a token.
  std::string ProofFor(const proto::Join& join) const {
    return token_.Prove(api::kProofOfLeader, join.nonce(), join.proof());
  }
  // Answers with the nonce for the next call. If the request is accepted, calls `tell`, which adds
  // all else to `response`, and then adds the proof that a process of the job has sent it; without
  // a token, or if no proof is asked for, there is none. A request without a proof only asks for a
  // nonce: it does not count as refused.
  void Answer(const proto::GetStatusRequest& request, proto::GetStatusResponse& response,
              const std::function<void()>& tell);
  // Returns true if the number of workers in an accepted request counts. Whoever has read a request
  // can send it again while its nonce is valid. So a number does not count if its request is older
  // than the one that set the present number, or if, within the same second, another number has
  // replaced it. Without a token, every number counts.
  bool TakesWorkers(const proto::GetStatusRequest& request);
  // Proves to the sender of an accepted report, or of one without a proof, that `answer` is the
  // leader's: adds its address and the proof. Does nothing without a token.
  void Sign(const proto::EvaluationReport& report, proto::EvaluationAnswer& answer) const;
  // `content`: the result of api::PutProofContent or api::GetProofContent.
  bool AcceptsStoreCall(std::uint64_t session, const std::string& content,
                        const std::string& proof);
  // Returns false for a report without a proof but does not count it: it only asks for a nonce.
  bool AcceptsEvaluation(const proto::EvaluationReport& report);
  // The nonce for GetStatus and for reports; empty without a token.
  std::string StatusNonce() const;

  std::int64_t refusals() const { return refused_.count(); }

 private:
  bool AcceptsStatusCall(const proto::GetStatusRequest& request);
  // Returns false.
  bool Refuse(const char* call, Refusal why = Refusal::kNoToken);
  bool IsFresh(const std::string& nonce) const;
  static std::optional<std::int64_t> SecondOf(const std::string& nonce);
  std::int64_t Second() const;
  std::string StatusNonceOf(std::int64_t second) const;

  const api::JobToken token_;
  const std::string listens_at_;
  const std::string status_secret_;  // key of the nonces that are not stored
  const Clock& clock_;
  std::map<std::uint64_t, std::string> nonces_;  // by session
  struct TakenWorkers {
    std::int64_t second = 0;  // of the nonce
    int workers = 0;
    std::set<int> replaced;  // with a nonce of the same second
  };
  TakenWorkers taken_;
  Refusals refused_;
};

}  // namespace lockstep::train
