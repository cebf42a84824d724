// Pods as a cluster has them: what is not even parsed, no rule reads.
#include "operator/controller/state/observed.h"
#include "operator/kube/cache/store.h"
#include "operator/kube/rest/object_json.h"
#include "tests/fuzz/fuzz.h"

using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Object pod = Object::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (pod.is_discarded()) return 0;
  lockstep::kube::IdentityOf(pod);
  const lockstep::kube::FieldMask keep = lockstep::controller::PodFields();
  const std::string event = Object({{"object", pod}}).dump();
  const auto read = lockstep::kube::ParseObject(event, "object", &keep);
  if (!read.ok()) return 0;  // nested deeper than a cluster's
  lockstep::fuzz::Require(
      lockstep::controller::ObservePod(read->at("object")) == lockstep::controller::ObservePod(pod),
      "a pod of which less is parsed says the same");
  return 0;
}
