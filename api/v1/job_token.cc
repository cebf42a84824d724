#include "api/v1/job_token.h"

#include <fmt/format.h>

#include <utility>

#include "base/hmac.h"
#include "base/read_file.h"

namespace lockstep::api {
namespace {

constexpr std::size_t kShortestSecret = 16;

}  // namespace

absl::StatusOr<JobToken> JobToken::ReadFile(const std::string& path) {
  absl::StatusOr<std::string> read = lockstep::ReadFile(path, "the job's token");
  if (!read.ok()) return absl::InvalidArgumentError(read.status().message());
  std::string secret = *std::move(read);
  while (!secret.empty() && std::string_view(" \t\r\n").find(secret.back()) != std::string::npos) {
    secret.pop_back();
  }
  if (secret.size() >= kShortestSecret) return JobToken(std::move(secret));
  return absl::InvalidArgumentError(fmt::format(
      "{}: found a token of {} bytes, expected at least {}", path, secret.size(), kShortestSecret));
}

std::string JobToken::Prove(std::string_view purpose, std::string_view nonce,
                            std::string_view content) const {
  if (!present()) return "";
  // The nonce's length makes the encoding unambiguous: no two inputs produce the same text.
  return HmacSha256(secret_,
                    fmt::format("{} {} ", purpose, nonce.size()).append(nonce).append(content));
}

std::string JobToken::ReportBearer() const {
  return ToHex(Prove(kProofOfReport, "", ""));
}

bool JobToken::Accepts(std::string_view purpose, std::string_view nonce, std::string_view content,
                       std::string_view proof) const {
  return !present() || EqualInConstantTime(Prove(purpose, nonce, content), proof);
}

std::string PutProofContent(std::uint64_t generation, std::string_view key,
                            std::string_view value) {
  return fmt::format("put {} {} ", generation, key.size()).append(key).append(value);
}

std::string GetProofContent(std::uint64_t generation, const std::vector<std::string>& keys,
                            std::uint64_t offset, std::uint64_t size) {
  std::string content = fmt::format("get {} {} {} ", generation, offset, size);
  for (const std::string& key : keys) content.append(fmt::format("{} ", key.size())).append(key);
  return content;
}

}  // namespace lockstep::api
