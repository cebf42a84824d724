// Maps a pod's volumes to folders of this machine.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/kube/client.h"
#include "operator/local/path_map.h"

namespace lockstep::local {

struct VolumeOptions {
  std::string work_dir;                        // absolute
  std::string current_dir;                     // base of relative hostPaths
  std::map<std::string, std::string> folders;  // --volume: by volume or claim name; absolute
  std::set<std::string> claims = {};           // of all pods of the job: see ClaimsOf
};

// Returns why nothing is found at the path ("does not exist"); empty if there is something.
std::string WhyAbsent(const std::string& path);

// Returns the names of the claims that the pods' volumes are of.
std::set<std::string> ClaimsOf(const std::vector<kube::Object>& pods);

// Returns each volume's folder or file, by name: that in `folders`, where a name in `claims` is
// that of the claim, whatever volumes have it too; else for a claim <work-dir>/volumes/<claim>, for
// emptyDir <work-dir>/volumes/<name>, or <work-dir>/volumes/emptyDir/<name> if there is a claim of
// its name, for ConfigMap and Secret <work-dir>/config/<pod>/<name>, for hostPath the path itself,
// for a memory-backed emptyDir mounted at /dev/shm /dev/shm. InvalidArgument names a volume of
// another type without an entry in `folders`, or a name that would leave the work directory. Pure.
absl::StatusOr<std::map<std::string, std::string>> LocateVolumes(const kube::Object& pod,
                                                                 const VolumeOptions& options);

// Says what the pods' volumes lack before any pod is started: a ConfigMap, a Secret or a key of one
// that `client` does not have, or a hostPath that is not there and that no pod's volume of type
// DirectoryOrCreate makes. InvalidArgument names the pod and the volume. Writes nothing.
absl::Status CheckSources(const std::vector<kube::Object>& pods, const VolumeOptions& options,
                          kube::Client& client);

// Creates the folders, and writes the entries of ConfigMaps and Secrets as files with the modes
// that their volumes say, a Secret's only for its owner, without what an earlier pod of this name
// left there. The content of a folder in `options.folders` is the user's and stays as it is.
// Requires: `locations` are those of LocateVolumes, and no process of an earlier pod of this name
// runs. NotFound: a hostPath, a ConfigMap, a Secret or a key is not there. InvalidArgument: a key
// or an item's path leads out of the volume, or its mode is none. FailedPrecondition: a folder
// cannot be made or emptied. Other errors: those of WriteAnew. After an error the volumes before
// the one that it names are filled, and that one may be in part.
absl::Status FillVolumes(const kube::Object& pod, const VolumeOptions& options,
                         const std::map<std::string, std::string>& locations, kube::Client& client);

// Maps a container's mount paths. InvalidArgument: a mount of an unknown volume, at "/", or with
// subPathExpr.
absl::StatusOr<PathMap> MapMounts(const kube::Object& container,
                                  const std::map<std::string, std::string>& locations);

// Returns the paths that the container's mounts have in volumes by subPath, without those in
// ConfigMaps and Secrets. Requires: MapMounts has accepted the container.
std::vector<std::string> MountedParts(const kube::Object& pod, const kube::Object& container,
                                      const std::map<std::string, std::string>& locations);
// Creates a folder at one of these if nothing is there. As the kubelet does, call it when the
// container starts: an init container may have made the path by then, as a file, too.
// FailedPrecondition: it cannot be made.
absl::Status MakePart(const std::string& path);

// Returns the decoded entries of a ConfigMap (data, binaryData) or Secret (data).
std::map<std::string, std::string> EntriesOf(const kube::Object& object);

// Defined here because operator/kube does not use it.
inline const kube::Kind kConfigMapKind{"", "v1", "ConfigMap", "configmaps"};

}  // namespace lockstep::local
