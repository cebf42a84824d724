// A pod's volumes as folders of this machine.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/local/path_map.h"

namespace lockstep::local {

struct VolumeOptions {
  std::string work_dir;                        // absolute
  std::string current_dir;                     // where relative hostPaths start
  std::map<std::string, std::string> folders;  // --volume: by volume or claim name, absolute
};

// Name of a volume -> its folder or file. emptyDir, ConfigMap and Secret:
// <work-dir>/volumes/<name>; a claim: <work-dir>/volumes/<claim>; hostPath: as it is; a
// memory-backed emptyDir at /dev/shm: /dev/shm. Any other type needs an entry in `folders`: else
// InvalidArgument, by name; and so is a name that would lead out of the work directory. Pure.
absl::StatusOr<std::map<std::string, std::string>> LocateVolumes(const kube::Object& pod,
                                                                 const VolumeOptions& options);

// Makes the folders, and writes out ConfigMaps and Secrets.
absl::Status FillVolumes(const kube::Object& pod,
                         const std::map<std::string, std::string>& locations, kube::Client& client);

// What a container sees where. InvalidArgument: a mount of no volume, at "/", or by subPathExpr.
absl::StatusOr<PathMap> MapMounts(const kube::Object& container,
                                  const std::map<std::string, std::string>& locations);

// The decoded entries of a ConfigMap (data, binaryData) or Secret (data).
std::map<std::string, std::string> EntriesOf(const kube::Object& object);

// operator/kube has no use for it.
inline const kube::Kind kConfigMapKind{"", "v1", "ConfigMap", "configmaps"};

}  // namespace lockstep::local
