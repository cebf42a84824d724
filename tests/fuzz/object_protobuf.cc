// Kubernetes' protobuf, beside the library's own reader of kubernetes.proto.
#include "operator/kube/rest/object_protobuf.h"

#include "operator/kube/rest/kubernetes.pb.h"
#include "operator/kube/rest/valid_utf8.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;
using lockstep::kube::Member;
using lockstep::kube::Object;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lockstep::kube::wire::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind("Pod");
  unknown.set_raw(data, size);
  const std::string text = std::string("k8s\0", 4) + unknown.SerializeAsString();
  (void)lockstep::kube::ProtobufIdentity(lockstep::fuzz::Text(data, size));
  const absl::StatusOr<Object> read = lockstep::kube::ParseProtobuf(text, nullptr);
  if (!read.ok()) return 0;
  read->dump();  // throws unless all texts are UTF-8
  // The other keeps a field of an unexpected wire type as an unknown one, and refuses some tags of
  // unknown fields; an empty text counts as absent here.
  lockstep::kube::wire::Pod other;
  if (!other.ParseFromString(unknown.raw()) || other.spec().nodename().empty()) return 0;
  std::string node = other.spec().nodename();
  lockstep::kube::ReplaceInvalidUtf8(node.data(), node.size());
  Require(lockstep::kube::TextMember(Member(*read, "spec"), "nodeName") == node,
          "both read the same");
  return 0;
}
