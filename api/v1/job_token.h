// A secret that only a job's own processes and the operator know. They never send it to each other:
// a caller proves with an HMAC over a nonce that the server chose that it knows the secret.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::api {

// Purposes of proofs. A proof for one purpose is never valid for another.
inline constexpr char kProofOfJoin[] = "join";      // content: the Join without its proof
inline constexpr char kProofOfLeader[] = "leader";  // content: the Join's proof
inline constexpr char kProofOfStore[] = "store";    // content: PutProofContent or GetProofContent
inline constexpr char kProofOfRank[] = "rank";      // content: the sending and the receiving rank
// content: the GetStatusRequest without its proof; nothing if it has no `dialled`
inline constexpr char kProofOfStatus[] = "status";
// content: the GetStatusResponse without its proof
inline constexpr char kProofOfStatusAnswer[] = "status answer";
// content: the EvaluationReport without its proof
inline constexpr char kProofOfEvaluation[] = "evaluation";
// content: the EvaluationAnswer without its proof
inline constexpr char kProofOfEvaluationAnswer[] = "evaluation answer";
// content: the Introduction without its proof
inline constexpr char kProofOfIntroduction[] = "introduction";
inline constexpr char kProofOfReport[] = "progress report";  // no nonce, no content: a bearer
// content: the server's challenge and the Introduction that answered it
inline constexpr char kProofOfServer[] = "server";

// Nonces for GetStatus begin with this if the trainer knows GetStatusRequest::dialled.
inline constexpr std::string_view kDialledNonce = "dialled ";

// Immutable, hence thread-safe.
class JobToken {
 public:
  JobToken() = default;  // no token: every caller is accepted
  explicit JobToken(std::string secret) : secret_(std::move(secret)) {}
  // Reads a token from a file, ignoring trailing white space. Returns InvalidArgument, naming the
  // file, if it cannot be read or holds fewer than 16 bytes.
  static absl::StatusOr<JobToken> ReadFile(const std::string& path);

  bool present() const { return !secret_.empty(); }
  // Returns HMAC-SHA256 over purpose, nonce and content; empty without a token.
  std::string Prove(std::string_view purpose, std::string_view nonce,
                    std::string_view content) const;
  // Returns the bearer token, in hexadecimal, that a program sends with its reports to the operator
  // (Authorization: Bearer), so that the program need not compute a proof. Someone who intercepts
  // it can report for the job, but can do nothing else with it. Empty without a token.
  std::string ReportBearer() const;
  // Returns true if `proof` is what Prove returns, or if there is no token. The comparison takes
  // constant time.
  bool Accepts(std::string_view purpose, std::string_view nonce, std::string_view content,
               std::string_view proof) const;

 private:
  std::string secret_;
};

// Return what a proof with kProofOfStore covers, for a Put and for a Get. No two different calls
// have the same content.
std::string PutProofContent(std::uint64_t generation, std::string_view key, std::string_view value);
std::string GetProofContent(std::uint64_t generation, const std::vector<std::string>& keys,
                            std::uint64_t offset, std::uint64_t size);

}  // namespace lockstep::api
