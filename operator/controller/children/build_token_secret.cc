#include "operator/controller/children/build_token_secret.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "api/v1/defaults.h"
#include "api/v1/job_token.h"
#include "api/v1/names.h"
#include "operator/controller/children/build_service.h"
#include "operator/controller/children/replica_env.h"
#include "operator/controller/state/main_container.h"
#include "operator/controller/state/progress_reports.h"

namespace lockstep::controller {
namespace {

using kube::Object;

constexpr char kTokenVolume[] = "lockstep-token";
constexpr char kTokenFolder[] = "/var/run/secrets/training.lockstep.dev";
constexpr char kTokenEntry[] = "token", kBearerEntry[] = "report-bearer";
// Readable for its owner and, through the pod's fsGroup, for a trainer that does not run as root.
constexpr int kTokenMode = 0440;

// A member of another type is left alone; the API server rejects it.
void Append(Object& object, const char* key, Object entry) {
  Object& list = object[key];
  if (list.is_null()) list = Object::array();
  if (list.is_array()) list.push_back(std::move(entry));
}

bool ListHas(const Object& object, const char* list, const char* key, const std::string& value) {
  return std::ranges::any_of(kube::ListMember(object, list), [&](const Object& entry) {
    return kube::TextMember(entry, key) == value;
  });
}

std::string FreeVolumeName(const Object& spec) {
  std::string name = kTokenVolume;
  for (int i = 1; ListHas(spec, "volumes", "name", name); ++i) {
    name = fmt::format("{}-{}", kTokenVolume, i);
  }
  return name;
}

bool MountsTokenFolder(const Object& container) {
  return ListHas(container, "volumeMounts", "mountPath", kTokenFolder) ||
         ListHas(container, "volumeMounts", "mountPath", std::string(kTokenFolder) + "/");
}

void MountVolume(const std::string& secret, Object& spec, Object& container) {
  const std::string volume = FreeVolumeName(spec);
  Append(spec, "volumes",
         {{"name", volume}, {"secret", {{"secretName", secret}, {"defaultMode", kTokenMode}}}});
  Append(container, "volumeMounts",
         {{"name", volume}, {"mountPath", kTokenFolder}, {"readOnly", true}});
}

void AddVariable(const char* name, std::string value, Object& container) {
  if (ListHas(container, "env", "name", name)) return;
  Append(container, "env", {{"name", name}, {"value", std::move(value)}});
}

}  // namespace

std::string TokenSecretName(const api::TrainingJob& job, bool has_bearer) {
  return fmt::format("{}{}-token-{}", job.metadata.name, has_bearer ? "-report" : "",
                     job.metadata.uid);
}

Object BuildTokenSecret(const api::TrainingJob& job, const std::string& token, bool has_bearer) {
  Object data = {{kTokenEntry, absl::Base64Escape(token)}};
  if (has_bearer) data[kBearerEntry] = absl::Base64Escape(api::JobToken(token).ReportBearer());
  return {{"apiVersion", kube::kSecretKind.ApiVersion()},
          {"kind", kube::kSecretKind.kind},
          {"metadata", ChildMetadata(job, TokenSecretName(job, has_bearer))},
          {"type", "Opaque"},
          {"immutable", true},
          {"data", std::move(data)}};
}

void MountToken(const api::TrainingJob& job, const Replica& replica, int attempt,
                const Reporting& reporting, Object& pod) {
  Object& spec = pod.at("spec");
  const Object* found =
      spec.contains("containers") ? MainContainerOf(spec.at("containers")) : nullptr;
  if (found == nullptr) return;
  Object& main = *const_cast<Object*>(found);
  const bool has_bearer = !reporting.channel.empty();
  const std::string secret = TokenSecretName(job, has_bearer);
  Object& annotations = pod.at("metadata")["annotations"];
  annotations[api::kAnnotationTokenSecret] = secret;
  if (has_bearer) annotations[api::kAnnotationReportChannel] = reporting.channel;
  const bool has_own = MountsTokenFolder(main);
  if (!has_own) MountVolume(secret, spec, main);
  AddVariable(api::kEnvTokenFile, fmt::format("{}/{}", kTokenFolder, kTokenEntry), main);
  const bool may_report =
      replica == LeadingReplica(job) || ListHas(main, "env", "name", kEnvTorchRank);
  if (!has_bearer || has_own || reporting.url.empty() || !may_report) return;
  AddVariable(api::kEnvProgressUrl,
              reporting.url + ReportPath(job.metadata.namespace_name, job.metadata.name, attempt),
              main);
  AddVariable(api::kEnvProgressToken, fmt::format("{}/{}", kTokenFolder, kBearerEntry), main);
}

}  // namespace lockstep::controller
