#include "operator/controller/state/observed_pod_group.h"

#include "base/digest.h"
#include "operator/kube/cache/store.h"

namespace lockstep::controller {
namespace {

constexpr const char* kPodGroupMembers[] = {"minMember", "minResources", "priorityClassName",
                                            "queue", "scheduleTimeoutSeconds"};

}  // namespace

ObservedPodGroup ReadPodGroup(const kube::Object& group) {
  ObservedPodGroup read;
  const kube::Object& spec = kube::Member(group, "spec");
  for (const char* name : kPodGroupMembers) {
    const kube::Object& member = kube::Member(spec, name);
    if (member.is_null()) continue;
    read[name] = Digest(member.dump(-1, ' ', false, kube::Object::error_handler_t::replace));
  }
  return read;
}

kube::FieldMask PodGroupFields() {
  kube::FieldMask fields = kube::IdentityFields();
  for (const char* name : kPodGroupMembers) fields.Add(std::string("spec.") + name);
  return fields;
}

}  // namespace lockstep::controller
