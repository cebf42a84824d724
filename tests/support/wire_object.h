// Kubernetes' protobuf encoding, written as an API server writes it.
#pragma once

#include <string>

#include "operator/kube/rest/kubernetes.pb.h"

namespace lockstep::testing {

// An object of apiVersion "v1" as the body of an answer.
template <typename Message>
std::string Enveloped(const std::string& kind, const Message& object) {
  kube::wire::Unknown unknown;
  unknown.mutable_typemeta()->set_apiversion("v1");
  unknown.mutable_typemeta()->set_kind(kind);
  unknown.set_raw(object.SerializeAsString());
  return std::string("k8s\0", 4) + unknown.SerializeAsString();
}

// A watch event of an enveloped object.
inline std::string EventOf(const std::string& type, const std::string& object) {
  kube::wire::WatchEvent event;
  event.set_type(type);
  event.mutable_object()->set_raw(object);
  return event.SerializeAsString();
}

// A watch event after its length, as it is in the body of a watch.
inline std::string Frame(const std::string& event) {
  std::string length;
  for (int shift = 24; shift >= 0; shift -= 8) {
    length += static_cast<char>(event.size() >> static_cast<unsigned>(shift));
  }
  return length + event;
}

}  // namespace lockstep::testing
