#include "trainer/rendezvous/gate/caller_check.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/hmac.h"
#include "trainer/identity/parse_text.h"
#include "trainer/rendezvous/gate/dialled_host.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kNonceBytes = 32;
constexpr std::int64_t kNonceSeconds = 60;  // how long a nonce that is not stored is valid

}  // namespace

CallerCheck::CallerCheck(api::JobToken token, std::string listens_at, const Clock& clock)
    : token_(std::move(token)),
      listens_at_(std::move(listens_at)),
      status_secret_(RandomBytes(kNonceBytes)),
      clock_(clock),
      refused_(clock) {}

const std::string& CallerCheck::Challenge(std::uint64_t session) {
  return nonces_[session] = RandomBytes(kNonceBytes);
}

bool CallerCheck::AcceptsJoin(std::uint64_t session, const proto::Join& join) {
  if (!token_.present()) return true;
  const auto nonce = nonces_.find(session);
  proto::Join content = join;
  content.clear_proof();
  const bool proven =
      nonce != nonces_.end() &&
      token_.Accepts(api::kProofOfJoin, nonce->second, content.SerializeAsString(), join.proof());
  if (!proven) return Refuse("Join");
  if (IsMeant(join.dialled(), listens_at_)) return true;
  return Refuse("Join", Refusal::kDialledElsewhere);
}

bool CallerCheck::AcceptsStoreCall(std::uint64_t session, const std::string& content,
                                   const std::string& proof) {
  if (!token_.present()) return true;
  const auto nonce = nonces_.find(session);
  const bool proven =
      nonce != nonces_.end() && token_.Accepts(api::kProofOfStore, nonce->second, content, proof);
  return proven || Refuse("Put or Get");
}

// The nonce goes to anyone, what `tell` adds only to a proven caller, and the proof covers it all.
void CallerCheck::Answer(const proto::GetStatusRequest& request, proto::GetStatusResponse& response,
                         const std::function<void()>& tell) {
  response.set_nonce(StatusNonce());
  if (!AcceptsStatusCall(request)) return;
  tell();
  if (request.answer_nonce().empty()) return;
  response.set_proof(token_.Prove(api::kProofOfStatusAnswer, request.answer_nonce(),
                                  response.SerializeAsString()));
}

bool CallerCheck::AcceptsStatusCall(const proto::GetStatusRequest& request) {
  if (!token_.present()) return true;
  if (request.proof().empty()) return false;
  const std::string& nonce = request.nonce();
  proto::GetStatusRequest content = request;
  content.clear_proof();
  const bool proven =
      IsFresh(nonce) &&
      token_.Accepts(api::kProofOfStatus, nonce,
                     request.dialled().empty() ? "" : content.SerializeAsString(), request.proof());
  if (!proven) return Refuse("GetStatus");
  return IsMeant(request.dialled(), listens_at_) || Refuse("GetStatus", Refusal::kDialledElsewhere);
}

bool CallerCheck::AcceptsEvaluation(const proto::EvaluationReport& report) {
  if (!token_.present()) return true;
  if (report.proof().empty()) return false;
  proto::EvaluationReport content = report;
  content.clear_proof();
  const bool proven =
      IsFresh(report.nonce()) && token_.Accepts(api::kProofOfEvaluation, report.nonce(),
                                                content.SerializeAsString(), report.proof());
  if (!proven) return Refuse("ReportEvaluation");
  return IsMeant(report.dialled(), listens_at_) ||
         Refuse("ReportEvaluation", Refusal::kDialledElsewhere);
}

void CallerCheck::Sign(const proto::EvaluationReport& report,
                       proto::EvaluationAnswer& answer) const {
  if (!token_.present()) return;
  answer.set_address(listens_at_);
  answer.set_proof(token_.Prove(api::kProofOfEvaluationAnswer, report.answer_nonce(),
                                answer.SerializeAsString()));
}

// True if this process has made the nonce less than a minute ago.
bool CallerCheck::IsFresh(const std::string& nonce) const {
  const std::optional<std::int64_t> second = SecondOf(nonce);
  return second && *second >= Second() - kNonceSeconds &&  // no overflow for any *second
         EqualInConstantTime(StatusNonceOf(*second), nonce);
}

std::optional<std::int64_t> CallerCheck::SecondOf(const std::string& nonce) {
  if (!nonce.starts_with(api::kDialledNonce)) return std::nullopt;
  const std::string rest = nonce.substr(api::kDialledNonce.size());
  return ParseInt64(rest.substr(0, rest.find(' ')));
}

bool CallerCheck::TakesWorkers(const proto::GetStatusRequest& request) {
  if (request.workers() < 1) return false;
  if (!token_.present()) return true;
  const std::optional<std::int64_t> second = SecondOf(request.nonce());
  // A proof from before it named an address covers nothing but its nonce.
  if (!second || request.dialled().empty() || *second < taken_.second) return false;
  if (*second > taken_.second) taken_ = {.second = *second, .workers = taken_.workers};
  if (taken_.replaced.contains(request.workers())) return false;
  const int before = std::exchange(taken_.workers, request.workers());
  if (before > 0 && before != taken_.workers) taken_.replaced.insert(before);
  return true;
}

std::string CallerCheck::StatusNonce() const {
  return token_.present() ? StatusNonceOf(Second()) : "";
}

std::int64_t CallerCheck::Second() const {
  const auto since = clock_.SteadyNow().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

// Returns "dialled <second> <HMAC of that>", which only this process can produce.
std::string CallerCheck::StatusNonceOf(std::int64_t second) const {
  const std::string text = fmt::format("{}{} ", api::kDialledNonce, second);
  return text + HmacSha256(status_secret_, text);
}

bool CallerCheck::Refuse(const char* call, Refusal why) {
  refused_.Add(why, call);
  return false;
}

}  // namespace lockstep::train
