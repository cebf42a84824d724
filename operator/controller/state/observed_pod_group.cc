#include "operator/controller/state/observed_pod_group.h"

#include <string_view>

#include "api/v1/names.h"
#include "base/digest.h"
#include "operator/controller/state/counted_quantities.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {
namespace {

constexpr const char* kPodGroupMembers[] = {"minMember", "minResources", "priorityClassName",
                                            "queue", "scheduleTimeoutSeconds"};

std::uint64_t DigestOf(const kube::Object& json) {
  return Digest(json.dump(-1, ' ', false, kube::Object::error_handler_t::replace));
}

}  // namespace

ObservedPodGroup ReadPodGroup(const kube::Object& group) {
  ObservedPodGroup read;
  const kube::Object& spec = kube::Member(group, "spec");
  for (const char* name : kPodGroupMembers) {
    const kube::Object& member = kube::Member(spec, name);
    if (member.is_null()) continue;
    const bool has_quantities = std::string_view(name) == "minResources";
    read[name] = DigestOf(has_quantities ? CountedQuantities(member) : member);
  }
  const kube::Object& annotations = kube::Member(kube::Member(group, "metadata"), "annotations");
  const kube::Object& noted = kube::Member(annotations, api::kAnnotationPodGroupMembers);
  if (!noted.is_null()) read[api::kAnnotationPodGroupMembers] = DigestOf(noted);
  return read;
}

kube::FieldMask PodGroupFields() {
  kube::FieldMask fields = kube::IdentityFields();
  fields.Add("metadata.annotations");
  for (const char* name : kPodGroupMembers) fields.Add(std::string("spec.") + name);
  return fields;
}

}  // namespace lockstep::controller
