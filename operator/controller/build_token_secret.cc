#include "operator/controller/build_token_secret.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "api/v1/names.h"
#include "operator/controller/build_service.h"
#include "operator/controller/main_container.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kTokenVolume[] = "lockstep-token";
constexpr char kTokenFolder[] = "/var/run/secrets/training.lockstep.dev";
constexpr char kTokenEntry[] = "token";
// For its owner and, by the pod's fsGroup, the trainer that runs without root.
constexpr int kTokenMode = 0440;

// A list of another type is left to the API server, which refuses it.
void Append(Object& object, const char* key, Object entry) {
  Object& list = object[key];
  if (list.is_null()) list = Object::array();
  if (list.is_array()) list.push_back(std::move(entry));
}

}  // namespace

std::string TokenSecretName(const api::TrainingJob& job) {
  return fmt::format("{}-token-{}", job.metadata.name, job.metadata.uid);
}

Object BuildTokenSecret(const api::TrainingJob& job, const std::string& token) {
  return {{"apiVersion", kube::kSecretKind.ApiVersion()},
          {"kind", kube::kSecretKind.kind},
          {"metadata", ChildMetadata(job, TokenSecretName(job))},
          {"type", "Opaque"},
          {"immutable", true},
          {"data", {{kTokenEntry, absl::Base64Escape(token)}}}};
}

void MountToken(const api::TrainingJob& job, Object& pod) {
  Object& spec = pod.at("spec");
  const Object* found =
      spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  if (found == nullptr) return;
  Object& main = *const_cast<Object*>(found);
  Append(spec, "volumes",
         {{"name", kTokenVolume},
          {"secret", {{"secretName", TokenSecretName(job)}, {"defaultMode", kTokenMode}}}});
  Append(main, "volumeMounts",
         {{"name", kTokenVolume}, {"mountPath", kTokenFolder}, {"readOnly", true}});
  const bool has_own = std::ranges::any_of(kube::ListMember(main, "env"), [](const Object& entry) {
    return kube::TextMember(entry, "name") == api::kEnvTokenFile;
  });
  if (!has_own) {
    Append(
        main, "env",
        {{"name", api::kEnvTokenFile}, {"value", fmt::format("{}/{}", kTokenFolder, kTokenEntry)}});
  }
  pod.at("metadata")["annotations"][api::kAnnotationTokenSecret] = TokenSecretName(job);
}

}  // namespace lockstep::controller
