#include "trainer/checkpoint/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <compare>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "api/base/check.h"
#include "api/base/log.h"
#include "api/base/status.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

constexpr char kManifest[] = "manifest.json";
constexpr char kManifestDraft[] = "manifest.json.tmp";
constexpr char kModel[] = "model.safetensors";
constexpr char kOptimizer[] = "optimizer.safetensors";

// step-00000200, and step-00000200.1 if that step is saved again while the first is there.
struct FolderName {
  std::int64_t step = 0, copy = 0;
  auto operator<=>(const FolderName&) const = default;

  std::string ToString() const {
    return copy == 0 ? fmt::format("step-{:08}", step) : fmt::format("step-{:08}.{}", step, copy);
  }
  static std::optional<FolderName> Parse(std::string_view name) {
    FolderName parsed;
    if (!name.starts_with("step-")) return std::nullopt;
    const char* end = name.data() + name.size();
    auto [rest, error] = std::from_chars(name.data() + 5, end, parsed.step);
    if (error == std::errc() && rest != end && *rest == '.') {
      std::tie(rest, error) = [&] {
        const auto result = std::from_chars(rest + 1, end, parsed.copy);
        return std::pair(result.ptr, result.ec);
      }();
    }
    // A name that this program would not have written is somebody else's.
    if (error != std::errc() || rest != end || parsed.ToString() != name) return std::nullopt;
    return parsed;
  }
};

class FolderStore final : public CheckpointStore {
 public:
  FolderStore(FileSystem& files, std::string directory, int keep)
      : files_(files), directory_(std::move(directory)), keep_(keep) {}

  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    RemoveLeftovers();
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<FolderName> present, Folders());
    FolderName name{snapshot.step, 0};
    for (const FolderName& other : present) {
      if (other.step == name.step) name.copy = std::max(name.copy, other.copy + 1);
    }
    const std::string folder = PathOf(name);
    if (absl::Status status = Write(snapshot, folder); !status.ok()) {
      // The first error is the one to tell; what cannot be removed now is a leftover of later.
      files_.RemoveRecursively(folder).IgnoreError();
      return status;
    }
    Prune(name);
    return folder;
  }

  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) override {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<FolderName> folders, Folders());
    std::sort(folders.begin(), folders.end(), std::greater<>());
    std::vector<std::string> damages;
    for (const FolderName& name : folders) {
      LOCKSTEP_ASSIGN_OR_RETURN(const bool committed, IsCommitted(name));
      if (!committed) continue;
      absl::StatusOr<Snapshot> snapshot = Load(PathOf(name), model_hash);
      if (snapshot.ok()) return std::optional<Snapshot>(*std::move(snapshot));
      if (!absl::IsDataLoss(snapshot.status())) return snapshot.status();
      damages.emplace_back(snapshot.status().message());
      damaged_.insert(name);
      LogWarning("a damaged checkpoint is passed over",
                 {{"checkpoint", PathOf(name)}, {"damage", damages.back()}});
    }
    if (damages.empty()) return std::optional<Snapshot>();
    return absl::DataLossError(
        fmt::format("{}: no checkpoint can be read: {}", directory_, fmt::join(damages, "; ")));
  }

  // Folders without a manifest: of saves that never ended.
  void RemoveLeftovers() {
    const absl::StatusOr<std::vector<FolderName>> folders = Folders();
    if (!folders.ok()) return;  // whoever needs the list will report it
    for (const FolderName& name : *folders) {
      const absl::StatusOr<bool> committed = IsCommitted(name);
      if (!committed.ok() || *committed) continue;
      WarnIfError(files_.RemoveRecursively(PathOf(name)), "leftovers of a save stay");
    }
  }

 private:
  std::string PathOf(const FolderName& name) const { return directory_ + "/" + name.ToString(); }

  absl::StatusOr<std::vector<FolderName>> Folders() const {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                              files_.ListDirectory(directory_));
    std::vector<FolderName> folders;
    for (const std::string& name : names) {
      if (const auto parsed = FolderName::Parse(name)) folders.push_back(*parsed);
    }
    return folders;
  }

  absl::StatusOr<bool> IsCommitted(const FolderName& name) const {
    const auto content = files_.ListDirectory(PathOf(name));
    if (!content.ok()) return content.status();
    return std::find(content->begin(), content->end(), kManifest) != content->end();
  }

  absl::Status Write(const Snapshot& snapshot, const std::string& folder) {
    Manifest manifest{snapshot.step, snapshot.state, snapshot.model_hash, {}};
    LOCKSTEP_RETURN_IF_ERROR(files_.CreateDirectories(folder));
    for (const auto& [name, tensors] :
         {std::pair(kModel, &snapshot.model), std::pair(kOptimizer, &snapshot.optimizer)}) {
      LOCKSTEP_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(*tensors));
      const auto pieces = SafetensorsPieces(header, *tensors);
      ManifestFile file{name, 0, 0};
      for (const auto piece : pieces) {
        file.bytes += piece.size();
        file.crc32c = ExtendCrc32c(file.crc32c, piece);
      }
      manifest.files.push_back(file);
      LOCKSTEP_RETURN_IF_ERROR(files_.WriteFile(folder + "/" + name, pieces));
    }
    const std::string text = EncodeManifest(manifest);
    const std::string draft = folder + "/" + kManifestDraft;
    LOCKSTEP_RETURN_IF_ERROR(files_.WriteFile(draft, {std::as_bytes(std::span(text))}));
    // The names of all files are durable before the manifest has its own: whoever finds it finds
    // everything it lists.
    LOCKSTEP_RETURN_IF_ERROR(files_.SyncDirectory(folder));
    LOCKSTEP_RETURN_IF_ERROR(files_.Rename(draft, folder + "/" + kManifest));
    return files_.SyncDirectory(folder);
  }

  absl::StatusOr<Snapshot> Load(const std::string& folder, const std::string& model_hash) const {
    const std::string manifest_path = folder + "/" + kManifest;
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, files_.ReadFile(manifest_path));
    LOCKSTEP_ASSIGN_OR_RETURN(Manifest manifest, DecodeManifest(text, manifest_path));
    if (manifest.model_hash != model_hash) {
      return absl::FailedPreconditionError(
          fmt::format("{}: it is a checkpoint of another model: modelHash is {}, expected {}",
                      manifest_path, manifest.model_hash, model_hash));
    }
    Snapshot snapshot{manifest.step, std::move(manifest.state), {}, {}, model_hash};
    LOCKSTEP_ASSIGN_OR_RETURN(snapshot.model, LoadTensors(folder, manifest, kModel));
    LOCKSTEP_ASSIGN_OR_RETURN(snapshot.optimizer, LoadTensors(folder, manifest, kOptimizer));
    return snapshot;
  }

  absl::StatusOr<std::vector<NamedTensor>> LoadTensors(const std::string& folder,
                                                       const Manifest& manifest,
                                                       const std::string& name) const {
    const std::string path = folder + "/" + name;
    const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                   [&](const ManifestFile& entry) { return entry.name == name; });
    if (file == manifest.files.end()) {
      return absl::DataLossError(fmt::format("{}: the manifest does not list it", path));
    }
    const absl::StatusOr<std::string> bytes = files_.ReadFile(path);
    if (absl::IsNotFound(bytes.status())) {
      return absl::DataLossError(std::string(bytes.status().message()));
    }
    if (!bytes.ok()) return bytes.status();
    if (bytes->size() != file->bytes) {
      return absl::DataLossError(
          fmt::format("{}: found {} bytes, expected {}", path, bytes->size(), file->bytes));
    }
    if (const std::uint32_t found = Crc32c(*bytes); found != file->crc32c) {
      return absl::DataLossError(
          fmt::format("{}: CRC-32C is {:08x}, expected {:08x}", path, found, file->crc32c));
    }
    return ParseSafetensors(*bytes, path);
  }

  // Called when `saved` is durable. Removes what is older than the newest `keep`, and what is known
  // to be damaged. A failure costs only room on the disk.
  void Prune(const FolderName& saved) {
    absl::StatusOr<std::vector<FolderName>> folders = Folders();
    if (!folders.ok()) return;
    std::sort(folders->begin(), folders->end(), std::greater<>());
    int kept = 0;
    std::optional<std::int64_t> last_step;
    for (const FolderName& name : *folders) {
      const bool superseded = last_step == name.step || damaged_.contains(name);
      if (name > saved && !superseded) continue;  // not this run's, so not its to remove
      if (superseded || kept == keep_) {
        WarnIfError(Remove(name), "an old checkpoint stays");
        continue;
      }
      ++kept;
      last_step = name.step;
    }
  }

  // The manifest first: a removal that is cut short leaves leftovers, not a damaged checkpoint.
  absl::Status Remove(const FolderName& name) {
    const std::string folder = PathOf(name);
    LOCKSTEP_RETURN_IF_ERROR(files_.RemoveRecursively(folder + "/" + kManifest));
    LOCKSTEP_RETURN_IF_ERROR(files_.SyncDirectory(folder));
    LOCKSTEP_RETURN_IF_ERROR(files_.RemoveRecursively(folder));
    damaged_.erase(name);
    return absl::OkStatus();
  }

  static void WarnIfError(const absl::Status& status, std::string_view what) {
    if (!status.ok()) LogWarning(what, {{"error", std::string(status.message())}});
  }

  FileSystem& files_;
  const std::string directory_;
  const int keep_;
  std::set<FolderName> damaged_;  // as LoadLatest found them
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(FileSystem& files,
                                                                       const std::string& directory,
                                                                       int keep) {
  LOCKSTEP_CHECK(keep >= 1, "keep is {}", keep);
  LOCKSTEP_RETURN_IF_ERROR(files.CreateDirectories(directory));
  auto store = std::make_unique<FolderStore>(files, directory, keep);
  store->RemoveLeftovers();
  return store;
}

}  // namespace lockstep::train
