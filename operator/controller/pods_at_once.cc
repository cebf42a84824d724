#include "operator/controller/pods_at_once.h"

#include <algorithm>

#include "api/v1/tf_config_size.h"
#include "operator/controller/children/replica_env.h"

namespace lockstep::controller {
namespace {

constexpr std::size_t kBytesUnderWay = std::size_t{4} << 20U;
// Bytes of memory per byte of JSON with many small values.
constexpr std::size_t kPerByteOfJson = 30;
// Bytes of memory per byte of text: in the pod, escaped in the request, in the answer.
constexpr std::size_t kPerByteOfText = 6;
// Bytes for the environment variables that each container gets.
constexpr std::size_t kPerContainer = std::size_t{16} << 10U;

std::size_t JsonSize(const api::Json& json) {
  return json.dump(-1, ' ', false, api::Json::error_handler_t::replace).size();
}

std::size_t ContainerCount(const api::Json& pod_template) {
  static const api::Json::json_pointer kContainers("/spec/containers");
  return pod_template.contains(kContainers) ? pod_template.at(kContainers).size() : 1;
}

}  // namespace

std::size_t PodsAtOnce(const api::TrainingJob& job, std::size_t most) {
  std::size_t largest = 1;
  for (const auto& [role, replicas] : job.spec.replica_specs) {
    const api::Json& pod_template = *replicas.tmpl;
    std::size_t bytes =
        kPerByteOfJson * JsonSize(pod_template) + kPerContainer * ContainerCount(pod_template);
    if (HasTfConfig(job, role)) bytes += kPerByteOfText * api::TfConfigSize(job, role);
    largest = std::max(largest, bytes);
  }
  if (job.spec.training) {
    largest += kPerByteOfJson * JsonSize(api::TrainingSpecToJson(*job.spec.training));
  }
  return std::clamp(kBytesUnderWay / largest, std::size_t{1}, std::max<std::size_t>(most, 1));
}

}  // namespace lockstep::controller
