// Pods as a cluster has them: what a cache drops, no rule reads.
#include "operator/controller/observe_job.h"
#include "operator/controller/observed.h"
#include "tests/fuzz/fuzz.h"

using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Object pod = Object::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (pod.is_discarded()) return 0;
  Object trimmed = pod;
  lockstep::controller::TrimPod(trimmed);
  lockstep::fuzz::Require(
      lockstep::controller::ObservePod(trimmed) == lockstep::controller::ObservePod(pod),
      "a trimmed pod says the same");
  return 0;
}
