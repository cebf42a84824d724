// Requests of the client for one object.
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/status.h"
#include "operator/kube/rest/api_server_client.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/resource_path.h"

namespace lockstep::kube {
namespace {

// Asks for metadata only, if the server supports that: a pod's spec can have 1.5 MB, and many pods
// may be created at a time.
constexpr char kAcceptMetadata[] =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json;q=0.9";
// Asks for the line that `kubectl get` prints, without the object: the object's version and a few
// KB of text. Metadata that others write can have 9 MB as JSON.
constexpr char kAcceptLine[] =
    "application/json;as=Table;g=meta.k8s.io;v=v1, application/json;q=0.9";
constexpr char kWithoutObject[] = "?includeObject=None";
// The server looks for unknown and repeated fields at some cost, and would report them in warnings
// that nobody reads.
constexpr char kWithoutWarnings[] = "?fieldValidation=Ignore";
constexpr char kWithoutObjectAndWarnings[] = "?includeObject=None&fieldValidation=Ignore";
// The server answers a create with what was sent, of which each byte may take six as JSON, and with
// the names of the fields, which it adds.
constexpr std::size_t kAnsweredPerByteSent = 8;

// For servers that send the whole object.
const FieldMask& MetadataAlone() {
  static const FieldMask mask = {"metadata"};
  return mask;
}

Object DeleteOptions(const Preconditions& expected) {
  Object options = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}};
  // The garbage collector deletes dependents in the background; otherwise batch/v1 Jobs would
  // keep their pods.
  options["propagationPolicy"] = "Background";
  Object preconditions = Object::object();
  if (!expected.uid.empty()) preconditions["uid"] = expected.uid;
  if (!expected.resource_version.empty()) {
    preconditions["resourceVersion"] = expected.resource_version;
  }
  if (!preconditions.empty()) options["preconditions"] = std::move(preconditions);
  return options;
}

}  // namespace

absl::StatusOr<Object> ApiServerClient::Get(const Kind& kind, const Key& key) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
  const ByteBudget::Share share(answers_, kLongestObject);  // held until the answer is parsed
  return CallForObject(Describe("get", kind, key), {"GET", ObjectPath(kind, key)});
}

absl::StatusOr<Object> ApiServerClient::GetMetadata(const Kind& kind, const Key& key) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
  const ByteBudget::Share share(answers_, kLongestObject);
  return CallForMetadata(Describe("get", kind, key), {"GET", ObjectPath(kind, key)});
}

absl::StatusOr<Object> ApiServerClient::Create(const Kind& kind, const Object& object) {
  const std::string what = Describe("create", kind, KeyOf(object));
  if (kind.namespaced && Namespace(object).empty()) {
    return absl::InvalidArgumentError(what + ": metadata.namespace is empty");
  }
  HttpRequest request{"POST", CollectionPath(kind, Namespace(object)) + kWithoutWarnings,
                      object.dump()};
  const ByteBudget::Share share(answers_, kAnsweredPerByteSent * request.body.size());
  return CallForMetadata(what, std::move(request));
}

absl::StatusOr<Object> ApiServerClient::Update(const Kind& kind, const Object& object) {
  return Put("update", kind, object, "");
}

absl::StatusOr<Object> ApiServerClient::UpdateStatus(const Kind& kind, const Object& object) {
  return Put("update status of", kind, object, "/status");
}

absl::Status ApiServerClient::Delete(const Kind& kind, const Key& key,
                                     const Preconditions& expected) {
  return DeleteWith(DeleteOptions(expected), kind, key);
}

absl::Status ApiServerClient::ForceDelete(const Kind& kind, const Key& key,
                                          const Preconditions& expected) {
  Object options = DeleteOptions(expected);
  options["gracePeriodSeconds"] = 0;
  return DeleteWith(options, kind, key);
}

absl::Status ApiServerClient::DeleteWith(const Object& options, const Kind& kind, const Key& key) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, key));
  HttpRequest request{"DELETE", ObjectPath(kind, key) + kWithoutObject, options.dump()};
  request.accept = kAcceptLine;
  request.wants_body = false;
  return Call(Describe("delete", kind, key), std::move(request)).status();
}

absl::StatusOr<Object> ApiServerClient::Put(const char* verb, const Kind& kind,
                                            const Object& object, const char* subresource) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kind, KeyOf(object)));
  const std::string what = Describe(verb, kind, KeyOf(object));
  if (ResourceVersion(object).empty()) {  // without it the server would overwrite unseen changes
    return absl::InvalidArgumentError(what + ": metadata.resourceVersion must be set");
  }
  HttpRequest request{"PUT",
                      ObjectPath(kind, KeyOf(object)) + subresource + kWithoutObjectAndWarnings,
                      object.dump()};
  request.accept = kAcceptLine;
  LOCKSTEP_ASSIGN_OR_RETURN(const Object answer,
                            CallForObject(what, std::move(request), &MetadataAlone()));
  Object written = {{"metadata", object.at("metadata")}};
  written["metadata"]["resourceVersion"] = ResourceVersion(answer);
  return written;
}

absl::StatusOr<Object> ApiServerClient::CallForMetadata(const std::string& what,
                                                        HttpRequest request) {
  request.accept = kAcceptMetadata;
  return CallForObject(what, std::move(request), &MetadataAlone());
}

absl::StatusOr<std::string> ApiServerClient::GetFromPod(const Key& pod, int port,
                                                        const std::string& path,
                                                        std::size_t most_bytes, Duration timeout) {
  LOCKSTEP_RETURN_IF_ERROR(CheckKey(kPodKind, pod));
  const Key at{pod.namespace_name, fmt::format("{}:{}", pod.name, port)};
  const std::string what = Describe(fmt::format("get {} from", path).c_str(), kPodKind, at);
  HttpRequest request{"GET", ObjectPath(kPodKind, at) + "/proxy" + path};
  request.accept = "*/*";
  request.most_bytes = most_bytes;
  LOCKSTEP_ASSIGN_OR_RETURN(HttpResponse answer, CallThrough(what, std::move(request), timeout));
  if (answer.too_long) {
    return absl::InternalError(
        fmt::format("{}: the answer has more than {} bytes", what, most_bytes));
  }
  return std::move(answer.body);
}

}  // namespace lockstep::kube
