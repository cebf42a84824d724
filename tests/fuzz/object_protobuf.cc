// Kubernetes' protobuf, beside the library's own reader of kubernetes.proto.
#include "operator/kube/rest/object_protobuf.h"

#include "operator/kube/rest/kubernetes.pb.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;
using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::kube::wire::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind("Pod");
  unknown.set_raw(data, size);
  const std::string text = std::string("k8s\0", 4) + unknown.SerializeAsString();
  const absl::StatusOr<Object> read = lockstep::kube::ParseProtobuf(text, nullptr);
  lockstep::kube::wire::Pod other;
  const bool both = other.ParseFromString(unknown.raw());
  if (!read.ok()) {
    // The other keeps a field of an unexpected wire type as an unknown one.
    return 0;
  }
  Require(both, "what is read is well-formed");
  read->dump();  // throws unless all texts are UTF-8
  (void)lockstep::kube::ProtobufIdentity(lockstep::fuzz::Text(data, size));
  return 0;
}
