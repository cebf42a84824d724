#include "operator/local/volumes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/new_file.h"
#include "base/status.h"

namespace lockstep::local {
namespace {

namespace fs = std::filesystem;
using kube::Object;

const Object& VolumesOf(const Object& pod) {
  static const Object* const kNone = new Object(Object::array());
  const auto spec = pod.find("spec");
  if (spec == pod.end() || !spec->contains("volumes")) return *kNone;
  return (*spec)["volumes"];
}

// Returns the key beside `name`: "emptyDir", "nfs", …
std::string TypeOf(const Object& volume) {
  for (const auto& [key, value] : volume.items()) {
    if (key != "name") return key;
  }
  return "emptyDir";
}

// Empty if the volume has no source: the API then defaults to an emptyDir.
Object SourceOf(const Object& volume, const std::string& type) {
  return volume.contains(type) && volume[type].is_object() ? volume[type] : Object::object();
}

// Empty if the volume is of another type.
std::string ClaimOf(const Object& volume) {
  constexpr char kClaim[] = "persistentVolumeClaim";
  if (TypeOf(volume) != kClaim) return "";
  return SourceOf(volume, kClaim).value("claimName", volume.value("name", ""));
}

bool IsConfig(const std::string& type) {
  return type == "configMap" || type == "secret";
}

// Returns the folder that the user has named for the volume, or null.
const std::string* NamedFolder(const Object& volume, const VolumeOptions& options) {
  auto folder = options.folders.find(ClaimOf(volume));
  if (folder == options.folders.end()) folder = options.folders.find(volume.value("name", ""));
  if (folder == options.folders.end()) return nullptr;
  // Volumes that have a place of their own give way to the claim.
  const std::string type = TypeOf(volume);
  const bool gives_way =
      type == "persistentVolumeClaim" || type == "emptyDir" || type == "hostPath" || IsConfig(type);
  const bool is_of_other =
      options.claims.contains(folder->first) && folder->first != ClaimOf(volume);
  return gives_way && is_of_other ? nullptr : &folder->second;
}

bool IsSharedMemory(const Object& pod, const std::string& volume) {
  for (const char* list : {"initContainers", "containers"}) {
    for (const Object& container : pod["spec"].value(list, Object::array())) {
      for (const Object& mount : container.value("volumeMounts", Object::array())) {
        if (mount.value("name", "") == volume && mount.value("mountPath", "") == "/dev/shm") {
          return true;
        }
      }
    }
  }
  return false;
}

absl::Status MakeFolder(const std::string& path, const std::string& what) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{}: cannot make {}: {}", what, path, error.message()));
}

// A name or path from a job that is appended to a folder must stay below it.
absl::Status CheckBelow(const std::string& path, const std::string& what) {
  const fs::path parts(path);
  const bool leaves =
      parts.is_absolute() || std::ranges::find(parts, fs::path("..")) != parts.end();
  if (!leaves) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: found \"{}\", expected a path below the volume", what, path));
}

// Returns the mode that the item sets, else the source, else Kubernetes' default; a Secret's is
// only for its owner, which is the user who runs the pods.
absl::StatusOr<mode_t> ModeOf(const Object& source, const Object& item, bool secret,
                              const std::string& what) {
  constexpr std::int64_t kMost = 0777;
  Object mode = source.value("defaultMode", Object(0644));
  mode = item.value("mode", mode);
  if (!mode.is_number_integer() || mode < 0 || mode > kMost) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a file's mode: found {}, expected 0 to {}, which is 0777", what, mode.dump(), kMost));
  }
  return mode.get<mode_t>() & (secret ? 0700U : 0777U);
}

struct ConfigFile {
  std::string path;  // below the volume
  std::string text;
  mode_t mode = 0;
};

absl::StatusOr<std::vector<ConfigFile>> FilesIn(const Object& source, const Object& object,
                                                const std::string& what) {
  std::vector<ConfigFile> files;
  const bool secret = object.value("kind", "") == "Secret";
  const std::map<std::string, std::string> entries = EntriesOf(object);
  if (!source.contains("items")) {
    LOCKSTEP_ASSIGN_OR_RETURN(const mode_t mode, ModeOf(source, Object::object(), secret, what));
    for (const auto& [key, text] : entries) {
      LOCKSTEP_RETURN_IF_ERROR(CheckBelow(key, what + ": a key"));
      files.push_back({key, text, mode});
    }
    return files;
  }
  for (const Object& item : source["items"]) {
    const auto entry = entries.find(item.value("key", ""));
    if (entry == entries.end()) {
      if (source.value("optional", false)) continue;
      return absl::NotFoundError(fmt::format("{}: no key {}", what, item.value("key", "")));
    }
    const std::string below = item.value("path", entry->first);
    LOCKSTEP_RETURN_IF_ERROR(CheckBelow(below, what + ": an item's path"));
    LOCKSTEP_ASSIGN_OR_RETURN(const mode_t mode, ModeOf(source, item, secret, what));
    files.push_back({below, entry->second, mode});
  }
  return files;
}

// Returns the files of a volume of a ConfigMap or Secret; none if that is optional and absent.
absl::StatusOr<std::vector<ConfigFile>> FilesOf(const std::string& name_space, const Object& volume,
                                                kube::Client& client) {
  const std::string type = TypeOf(volume);
  const std::string what = fmt::format("volume \"{}\"", volume.value("name", ""));
  const Object source = SourceOf(volume, type);
  const kube::Kind& kind = type == "secret" ? kube::kSecretKind : kConfigMapKind;
  const std::string name = source.value(type == "secret" ? "secretName" : "name", "");
  const absl::StatusOr<Object> object = client.Get(kind, {name_space, name});
  if (object.ok()) return FilesIn(source, *object, what);
  if (absl::IsNotFound(object.status()) && source.value("optional", false)) {
    return std::vector<ConfigFile>();
  }
  return absl::NotFoundError(
      fmt::format("{}: no {} \"{}\" in namespace {}", what, kind.kind, name, name_space));
}

bool IsMadeAtStart(const Object& volume) {
  return TypeOf(volume) == "hostPath" &&
         SourceOf(volume, "hostPath").value("type", "") == "DirectoryOrCreate";
}

absl::Status CheckHostPath(const std::string& path, const std::string& what) {
  const std::string why = WhyAbsent(path);
  if (why.empty()) return absl::OkStatus();
  return absl::NotFoundError(fmt::format("{}: hostPath {} {}", what, path, why));
}

// An entry that its ConfigMap no longer has must not remain. As in a cluster, the folder belongs to
// one pod, so no other process is reading it.
absl::Status MakeEmptyFolder(const std::string& path, const std::string& what) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return MakeFolder(path, what);
  return absl::FailedPreconditionError(
      fmt::format("{}: cannot empty {}: {}", what, path, error.message()));
}

absl::Status FillConfig(const std::string& name_space, const Object& volume,
                        const std::string& path, kube::Client& client) {
  const std::string what = fmt::format("volume \"{}\"", volume.value("name", ""));
  LOCKSTEP_RETURN_IF_ERROR(MakeEmptyFolder(path, what));
  LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<ConfigFile> files,
                            FilesOf(name_space, volume, client));
  for (const ConfigFile& file : files) {
    const fs::path at = fs::path(path) / file.path;
    LOCKSTEP_RETURN_IF_ERROR(MakeFolder(at.parent_path().string(), what));
    LOCKSTEP_RETURN_IF_ERROR(WriteAnew(at, file.text, file.mode));
  }
  return absl::OkStatus();
}

}  // namespace

std::string WhyAbsent(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error)) return "";
  return error ? "cannot be looked up: " + error.message() : "does not exist";
}

std::set<std::string> ClaimsOf(const std::vector<Object>& pods) {
  std::set<std::string> claims;
  for (const Object& pod : pods) {
    for (const Object& volume : VolumesOf(pod)) claims.insert(ClaimOf(volume));
  }
  claims.erase("");  // of the other volumes
  return claims;
}

absl::StatusOr<std::map<std::string, std::string>> LocateVolumes(const Object& pod,
                                                                 const VolumeOptions& options) {
  std::map<std::string, std::string> locations;
  for (const Object& volume : VolumesOf(pod)) {
    const std::string name = volume.value("name", "");
    const std::string type = TypeOf(volume);
    const Object source = SourceOf(volume, type);
    const std::string claim = ClaimOf(volume);
    const std::string folders = options.work_dir + "/volumes/";
    LOCKSTEP_RETURN_IF_ERROR(CheckBelow(name, "a volume's name"));
    LOCKSTEP_RETURN_IF_ERROR(CheckBelow(claim, fmt::format("volume \"{}\": claimName", name)));
    std::string& location = locations[name];
    if (const std::string* named = NamedFolder(volume, options)) {
      location = *named;
    } else if (type == "persistentVolumeClaim") {
      location = folders + claim;
    } else if (type == "emptyDir" && source.value("medium", "") == "Memory" &&
               IsSharedMemory(pod, name)) {
      location = "/dev/shm";
    } else if (IsConfig(type)) {
      location = fmt::format("{}/config/{}/{}", options.work_dir, kube::Name(pod), name);
    } else if (type == "emptyDir") {
      // No claim is called emptyDir: names have no capitals.
      location = folders + (options.claims.contains(name) ? "emptyDir/" : "") + name;
    } else if (type == "hostPath") {
      const fs::path path = fs::path(options.current_dir) / source.value("path", "");
      location = path.lexically_normal().string();
    } else {
      return absl::InvalidArgumentError(fmt::format(
          "pod {}: volume \"{}\" is of type {}, which has no counterpart on one machine: name a "
          "folder for it with --volume {}=PATH",
          kube::Name(pod), name, type, name));
    }
  }
  return locations;
}

absl::Status CheckSources(const std::vector<Object>& pods, const VolumeOptions& options,
                          kube::Client& client) {
  std::vector<std::map<std::string, std::string>> locations;
  std::set<std::string> made;
  const auto folder_of = [](const std::string& path) {
    return path.ends_with('/') ? path : path + "/";
  };
  for (const Object& pod : pods) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto of_pod, LocateVolumes(pod, options));
    for (const Object& volume : VolumesOf(pod)) {
      if (IsMadeAtStart(volume)) made.insert(folder_of(of_pod[volume.value("name", "")]));
    }
    locations.push_back(std::move(of_pod));
  }
  const auto will_be_made = [&](const std::string& path) {  // it, or a folder in it
    const std::string folder = folder_of(path);
    const auto next = made.lower_bound(folder);
    return next != made.end() && next->starts_with(folder);
  };
  for (std::size_t i = 0; i < pods.size(); ++i) {
    for (const Object& volume : VolumesOf(pods[i])) {
      const std::string name = volume.value("name", "");
      const std::string type = TypeOf(volume);
      absl::Status found;
      if (type == "hostPath" && !will_be_made(locations[i][name])) {
        found = CheckHostPath(locations[i][name], fmt::format("volume \"{}\"", name));
      } else if (IsConfig(type) && NamedFolder(volume, options) == nullptr) {
        found = FilesOf(kube::Namespace(pods[i]), volume, client).status();
      }
      if (found.ok()) continue;
      return absl::InvalidArgumentError(
          fmt::format("pod {}: {}", kube::Name(pods[i]), std::string(found.message())));
    }
  }
  return absl::OkStatus();
}

absl::Status FillVolumes(const Object& pod, const VolumeOptions& options,
                         const std::map<std::string, std::string>& locations,
                         kube::Client& client) {
  for (const Object& volume : VolumesOf(pod)) {
    const std::string name = volume.value("name", "");
    const auto location = locations.find(name);
    if (location == locations.end()) continue;
    const std::string& path = location->second;
    const std::string type = TypeOf(volume);
    const std::string what = fmt::format("volume \"{}\"", name);
    if (type == "hostPath" && !IsMadeAtStart(volume)) {
      LOCKSTEP_RETURN_IF_ERROR(CheckHostPath(path, what));
    } else if (IsConfig(type) && NamedFolder(volume, options) == nullptr) {
      LOCKSTEP_RETURN_IF_ERROR(FillConfig(kube::Namespace(pod), volume, path, client));
    } else {
      LOCKSTEP_RETURN_IF_ERROR(MakeFolder(path, what));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PathMap> MapMounts(const Object& container,
                                  const std::map<std::string, std::string>& locations) {
  PathMap paths;
  for (const Object& mount : container.value("volumeMounts", Object::array())) {
    const std::string volume = mount.value("name", "");
    const std::string path = mount.value("mountPath", "");
    const std::string what = fmt::format("container {}: the mount of volume \"{}\" at \"{}\"",
                                         container.value("name", ""), volume, path);
    const auto location = locations.find(volume);
    if (location == locations.end()) {
      return absl::InvalidArgumentError(fmt::format("{}: the pod has no such volume", what));
    }
    if (path.size() < 2 || path.front() != '/') {
      return absl::InvalidArgumentError(
          fmt::format("{}: expected an absolute path below \"/\"", what));
    }
    if (mount.contains("subPathExpr")) {
      return absl::InvalidArgumentError(
          fmt::format("{}: subPathExpr is not supported by lockstep run", what));
    }
    const std::string sub_path = mount.value("subPath", "");
    LOCKSTEP_RETURN_IF_ERROR(CheckBelow(sub_path, what + ": subPath"));
    paths.Add(path, sub_path.empty() ? location->second : location->second + "/" + sub_path);
  }
  return paths;
}

std::vector<std::string> MountedParts(const Object& pod, const Object& container,
                                      const std::map<std::string, std::string>& locations) {
  std::set<std::string> of_config;  // there, a part is a file, which its key makes
  for (const Object& volume : VolumesOf(pod)) {
    if (IsConfig(TypeOf(volume))) of_config.insert(volume.value("name", ""));
  }
  std::vector<std::string> parts;
  for (const Object& mount : container.value("volumeMounts", Object::array())) {
    const std::string volume = mount.value("name", ""), sub_path = mount.value("subPath", "");
    const auto location = locations.find(volume);
    if (location == locations.end() || sub_path.empty() || of_config.contains(volume)) continue;
    parts.push_back(location->second + "/" + sub_path);
  }
  return parts;
}

absl::Status MakePart(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) ? absl::OkStatus() : MakeFolder(path, "a mount's subPath");
}

std::map<std::string, std::string> EntriesOf(const Object& object) {
  std::map<std::string, std::string> entries;
  const bool secret = object.value("kind", "") == "Secret";
  const auto add = [&](const char* field, bool encoded) {
    if (!object.contains(field) || !object[field].is_object()) return;
    for (const auto& [key, value] : object[field].items()) {
      std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (!encoded) {
        entries[key] = std::move(text);
      } else if (std::string bytes;
                 absl::Base64Unescape(text, &bytes)) {  // a job's file has no other
        entries[key] = std::move(bytes);
      }
    }
  };
  add("data", secret);
  add("binaryData", true);
  return entries;
}

}  // namespace lockstep::local
