// What a job's own processes, and the operator, know and nobody else does. It never crosses the
// wire: a caller proves that it knows it, for a nonce that the server chose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::api {

// What a proof is for; one is never good for another.
inline constexpr char kProofOfJoin[] = "join";      // content: the Join without its proof
inline constexpr char kProofOfStore[] = "store";    // content: Put- or GetProofContent
inline constexpr char kProofOfRank[] = "rank";      // content: from which rank to which
inline constexpr char kProofOfStatus[] = "status";  // content: none

// Immutable, so thread-safe.
class JobToken {
 public:
  JobToken() = default;  // none: whoever calls is believed
  explicit JobToken(std::string secret) : secret_(std::move(secret)) {}
  // InvalidArgument names the file: it cannot be read, or holds less than 16 bytes. White space at
  // the end does not count.
  static absl::StatusOr<JobToken> ReadFile(const std::string& path);

  bool present() const { return !secret_.empty(); }
  // HMAC-SHA256 over purpose, nonce and content; empty without a token.
  std::string Prove(std::string_view purpose, std::string_view nonce,
                    std::string_view content) const;
  // Always, without a token.
  bool Accepts(std::string_view purpose, std::string_view nonce, std::string_view content,
               std::string_view proof) const;

 private:
  std::string secret_;
};

std::string PutProofContent(std::uint64_t generation, std::string_view key, std::string_view value);
std::string GetProofContent(std::uint64_t generation, const std::vector<std::string>& keys,
                            std::uint64_t offset, std::uint64_t size);

}  // namespace lockstep::api
