#include "operator/controller/job_tokens.h"

#include <fmt/format.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "base/hmac.h"
#include "base/status.h"

namespace lockstep::controller {
namespace {

constexpr std::size_t kKeyBytes = 32;
constexpr char kKeyEntry[] = "key";
// Many jobs may ask at once, and each call takes long while the API server is down.
constexpr Duration kRetry = std::chrono::seconds(1);

kube::Object KeySecret(const kube::Key& name, const std::string& key) {
  return {
      {"apiVersion", kube::kSecretKind.ApiVersion()},
      {"kind", kube::kSecretKind.kind},
      {"metadata",
       {{"name", name.name},
        {"namespace", name.namespace_name},
        {"labels",
         {{"app.kubernetes.io/name", "lockstep"}, {"app.kubernetes.io/component", "operator"}}}}},
      {"type", "Opaque"},
      {"immutable", true},
      {"data", {{kKeyEntry, absl::Base64Escape(key)}}}};
}

absl::StatusOr<std::string> KeyIn(const kube::Key& name, const kube::Object& secret) {
  const std::string encoded = kube::TextMember(kube::Member(secret, "data"), kKeyEntry);
  std::string key;
  if (absl::Base64Unescape(encoded, &key) && key.size() >= kKeyBytes) return key;
  return absl::InvalidArgumentError(
      fmt::format("secrets {}/{}: data.{}: found {} bytes, expected at least {} in base64",
                  name.namespace_name, name.name, kKeyEntry, key.size(), kKeyBytes));
}

}  // namespace

JobTokens::JobTokens(kube::Client& client, const Clock& clock, kube::Key key)
    : client_(client), clock_(clock), name_(std::move(key)) {}

absl::Status JobTokens::Load() {
  const std::lock_guard loading(loading_);
  {
    const std::lock_guard lock(mutex_);
    if (key_) return absl::OkStatus();
  }
  if (retry_at_ && clock_.SteadyNow() < *retry_at_) return failure_;
  auto key = ReadOrMake();
  if (!key.ok()) {
    retry_at_ = clock_.SteadyNow() + kRetry;
    failure_ = {key.status().code(),
                fmt::format("no key to make the job's token of, without which its pods are not "
                            "made: {}",
                            std::string(key.status().message()))};
    return failure_;
  }
  const std::lock_guard lock(mutex_);
  key_ = *std::move(key);
  return absl::OkStatus();
}

absl::StatusOr<std::string> JobTokens::ReadOrMake() {
  auto secret = client_.Get(kube::kSecretKind, name_);
  if (absl::IsNotFound(secret.status())) {
    std::string key = RandomBytes(kKeyBytes);
    const auto made = client_.Create(kube::kSecretKind, KeySecret(name_, key));
    if (made.ok()) return key;
    // Another operator created it, or an earlier call of ours whose answer was lost.
    if (!absl::IsAlreadyExists(made.status())) return made.status();
    secret = client_.Get(kube::kSecretKind, name_);
  }
  LOCKSTEP_RETURN_IF_ERROR(secret.status());
  return KeyIn(name_, *secret);
}

bool JobTokens::IsLoaded() const {
  const std::lock_guard lock(mutex_);
  return key_.has_value();
}

absl::StatusOr<std::string> JobTokens::TextFor(const std::string& job_uid) const {
  const std::lock_guard lock(mutex_);
  if (!key_) return absl::FailedPreconditionError("the operator's key is not known yet");
  return ToHex(HmacSha256(*key_, job_uid));
}

api::JobToken JobTokens::For(const std::string& job_uid) const {
  auto text = TextFor(job_uid);
  return text.ok() ? api::JobToken(*std::move(text)) : api::JobToken();
}

}  // namespace lockstep::controller
