// A job's PodGroup as the cache has it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "operator/kube/field_mask.h"
#include "operator/kube/object.h"

namespace lockstep::controller {

enum class GangScheduler { kNone, kVolcano, kSchedulerPlugins };
// Where a pod names its PodGroup: Volcano's annotation, and scheduler-plugins' label.
inline constexpr char kVolcanoGroup[] = "scheduling.k8s.io/group-name";
inline constexpr char kPluginsGroup[] = "scheduling.x-k8s.io/pod-group";

// The members of a PodGroup's spec that BuildPodGroup (children/gang.h) may set, and the note of
// those that it has set (kAnnotationPodGroupMembers), each as a digest of its JSON. They are only
// compared, and whoever writes the object decides how long they are. Volcano writes quantities in
// another form than it has read them, so equal ones have one digest.
using ObservedPodGroup = std::map<std::string, std::uint64_t>;

// Reads nothing else of the object, which may be as large as an object can be.
ObservedPodGroup ReadPodGroup(const kube::Object& group);
// The members of a PodGroup that ReadPodGroup and a store read, so that the rest is not parsed.
kube::FieldMask PodGroupFields();

}  // namespace lockstep::controller
