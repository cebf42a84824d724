#include "trainer/checkpoint/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "trainer/checkpoint/checkpoint_folder.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

constexpr char kManifestDraft[] = "manifest.json.tmp";
constexpr int kMostLooks = 5;  // at a folder whose owner removes what is about to be read

class FolderStore final : public CheckpointStore {
 public:
  FolderStore(FileSystem& files, std::string directory, int keep, FolderClaim claim)
      : files_(files), directory_(std::move(directory)), keep_(keep), claim_(std::move(claim)) {}

  absl::Status Open() { return Begin(Own(&FolderClaim::TakeUnlessAnothers)); }

  absl::StatusOr<bool> Claim() override {
    if (claim_.is_taken()) return false;
    LOCKSTEP_RETURN_IF_ERROR(Begin(Own(&FolderClaim::Take)));
    return HasNewer();
  }

  bool IsClaimed() const override { return claim_.is_taken(); }

  absl::StatusOr<std::string> Save(const Snapshot& snapshot) override {
    // Before the folder is claimed: who is refused may try again.
    const bool was_claimed = claim_.is_taken();
    if (!was_claimed && has_looked_) LOCKSTEP_RETURN_IF_ERROR(ExpectNoNewer());
    LOCKSTEP_RETURN_IF_ERROR(Own(&FolderClaim::Check));
    if (!was_claimed && has_looked_) LOCKSTEP_RETURN_IF_ERROR(ExpectNoNewer());
    RemoveLeftovers();
    LOCKSTEP_ASSIGN_OR_RETURN(const api::CheckpointName name, MakeFolder(snapshot.step));
    const std::string folder = PathOf(name);
    if (absl::Status status = Write(snapshot, folder); !status.ok()) {
      // A manifest that was not synced may survive a crash, and no other checkpoint may. It stays
      // until a later save prunes it. What has no manifest is nothing; if it cannot be removed now,
      // RemoveLeftovers retries it. Return the first error.
      const absl::StatusOr<bool> committed = IsCommitted(files_, folder);
      if (committed.ok() && !*committed) files_.RemoveRecursively(folder).IgnoreError();
      if (committed.ok() && *committed) saved_ = name;
      return status;
    }
    saved_ = name;
    Prune(name);
    return folder;
  }

  absl::StatusOr<std::optional<Snapshot>> LoadLatest(const std::string& model_hash) override {
    for (int looks = 1;; ++looks) {
      bool is_gone = false;
      absl::StatusOr<std::optional<Snapshot>> loaded = LookForLatest(model_hash, is_gone);
      if (loaded.ok() || !is_gone || looks == kMostLooks) return loaded;
    }
  }

  absl::StatusOr<std::optional<CheckpointAge>> Newest() override {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<api::CheckpointName> folders, Folders());
    std::sort(folders.begin(), folders.end(), std::greater<>());
    for (const api::CheckpointName& name : folders) {
      const absl::StatusOr<Manifest> manifest = ReadManifest(files_, PathOf(name));
      if (manifest.ok()) return CheckpointAge{manifest->step, manifest->saved, manifest->state};
    }
    return std::nullopt;
  }

 private:
  // As LoadLatest. Sets `is_gone` if a checkpoint was removed meanwhile: another job may still own
  // the folder, and then has a newer one.
  absl::StatusOr<std::optional<Snapshot>> LookForLatest(const std::string& model_hash,
                                                        bool& is_gone) {
    LOCKSTEP_ASSIGN_OR_RETURN(std::vector<api::CheckpointName> folders, Folders());
    std::sort(folders.begin(), folders.end(), std::greater<>());
    newest_ = NewestOf(folders);
    has_looked_ = true;
    std::vector<std::string> damages;
    bool may_pass = false;
    for (const api::CheckpointName& name : folders) {
      absl::StatusOr<std::optional<Snapshot>> snapshot = LoadIfCommitted(name, model_hash);
      if (snapshot.ok() && !snapshot->has_value()) continue;
      if (snapshot.ok() || absl::IsFailedPrecondition(snapshot.status())) return snapshot;
      damages.emplace_back(snapshot.status().message());
      const bool was_removed = IsGone(files_, PathOf(name));
      const bool is_damaged = !was_removed && absl::IsDataLoss(snapshot.status());
      // Prune removes damaged checkpoints, but not unreadable ones: the disk may recover.
      if (is_damaged) damaged_.insert(name);
      is_gone = is_gone || was_removed;
      may_pass = may_pass || !is_damaged;
      LogWarning(was_removed ? "a checkpoint was removed before it was read"
                             : "a damaged checkpoint is passed over",
                 {{"checkpoint", PathOf(name)}, {"damage", damages.back()}});
    }
    if (damages.empty()) return std::optional<Snapshot>();
    const std::string message =
        fmt::format("{}: no checkpoint can be read: {}", directory_, fmt::join(damages, "; "));
    return may_pass ? absl::UnavailableError(message) : absl::DataLossError(message);
  }

  // True if another process has saved a checkpoint since the last LoadLatest.
  absl::StatusOr<bool> HasNewer() const {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<api::CheckpointName> folders, Folders());
    const std::optional<api::CheckpointName> newest = NewestOf(folders);
    return newest && newest != newest_ && newest != saved_;
  }

  // For a process that trains although it could not claim the folder before. It goes on from the
  // older checkpoint; its next process goes on from the newer one.
  absl::Status ExpectNoNewer() const {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool has_newer, HasNewer());
    if (!has_newer) return absl::OkStatus();
    return absl::AbortedError(fmt::format(
        "{}: another process has saved a checkpoint since this one has read the newest, which it "
        "could not claim then",
        directory_));
  }

  // What follows an attempt to claim the folder. A full disk can still be read, and may have room
  // when the first save is due.
  absl::Status Begin(const absl::Status& claimed) {
    if (absl::IsAborted(claimed) || absl::IsFailedPrecondition(claimed)) return claimed;
    WarnIfError(claimed, "the checkpoint folder cannot be claimed yet");
    if (claim_.is_taken()) RemoveLeftovers();
    return absl::OkStatus();
  }

  // Calls the claim's function. If the disk is full, what an unfinished save has left behind may be
  // just the room that is missing. The claim has found by then that the folder may be taken over.
  absl::Status Own(absl::Status (FolderClaim::*take)()) {
    absl::Status owned = (claim_.*take)();
    if (!absl::IsResourceExhausted(owned)) return owned;
    RemoveLeftovers();
    return (claim_.*take)();
  }

  // Removes folders without a manifest, which unfinished saves left behind. Only the folder's owner
  // may commit a checkpoint, so no data is lost. A previous owner may not know yet that it lost the
  // folder and may still write there, so these names are not reused.
  void RemoveLeftovers() {
    const absl::StatusOr<std::vector<api::CheckpointName>> folders = Folders();
    if (!folders.ok()) return;  // the next call that needs the list reports it
    for (const api::CheckpointName& name : *folders) {
      const absl::StatusOr<bool> committed = IsCommitted(files_, PathOf(name));
      if (!committed.ok() || *committed) continue;
      left_over_.insert(name);
      WarnIfError(files_.RemoveRecursively(PathOf(name)), "leftovers of a save stay");
    }
  }

  std::string PathOf(const api::CheckpointName& name) const {
    return directory_ + "/" + name.ToString();
  }

  absl::StatusOr<std::vector<api::CheckpointName>> Folders() const {
    return ListFolders(files_, directory_);
  }

  // The newest of the complete ones; nullopt: none is complete.
  std::optional<api::CheckpointName> NewestOf(
      const std::vector<api::CheckpointName>& folders) const {
    std::optional<api::CheckpointName> newest;
    for (const api::CheckpointName& name : folders) {
      if (newest && name < *newest) continue;
      const absl::StatusOr<bool> committed = IsCommitted(files_, PathOf(name));
      if (committed.ok() && *committed) newest = name;
    }
    return newest;
  }

  // Creates a folder for that step that no other process writes to.
  absl::StatusOr<api::CheckpointName> MakeFolder(std::int64_t step) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::vector<api::CheckpointName> present, Folders());
    api::CheckpointName name{step, 0};
    const auto avoid = [&](const api::CheckpointName& other) {
      if (other.step == name.step) name.copy = std::max(name.copy, other.copy + 1);
    };
    std::for_each(present.begin(), present.end(), avoid);
    std::for_each(left_over_.begin(), left_over_.end(), avoid);
    absl::Status made = files_.CreateDirectory(PathOf(name));
    for (; absl::IsAlreadyExists(made); made = files_.CreateDirectory(PathOf(name))) ++name.copy;
    LOCKSTEP_RETURN_IF_ERROR(made);
    // The folder must be durable before its content is.
    absl::Status durable = files_.SyncDirectory(directory_);
    if (!durable.ok()) files_.RemoveRecursively(PathOf(name)).IgnoreError();
    LOCKSTEP_RETURN_IF_ERROR(durable);
    return name;
  }

  absl::Status Write(const Snapshot& snapshot, const std::string& folder) {
    Manifest manifest{snapshot.step, snapshot.state, snapshot.model_hash, {}, snapshot.saved};
    // Those who take a checkpoint's model, and know nothing of the run, get the best one.
    const bool has_best = !snapshot.best.empty();
    std::vector<std::pair<const char*, const std::vector<NamedTensor>*>> parts = {
        {kModelName, has_best ? &snapshot.best : &snapshot.model},
        {kOptimizerName, &snapshot.optimizer}};
    if (has_best) parts.emplace_back(kTrainingName, &snapshot.model);
    for (const auto& [name, tensors] : parts) {
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
    // All files must be durable before the manifest gets its name, so that a reader that finds it
    // finds everything it lists.
    LOCKSTEP_RETURN_IF_ERROR(files_.SyncDirectory(folder));
    // Much time may have passed since the last check.
    LOCKSTEP_RETURN_IF_ERROR(claim_.Check());
    LOCKSTEP_RETURN_IF_ERROR(files_.Rename(draft, folder + "/" + api::kManifestName));
    return files_.SyncDirectory(folder);
  }

  absl::StatusOr<std::optional<Snapshot>> LoadIfCommitted(const api::CheckpointName& name,
                                                          const std::string& model_hash) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const bool committed, IsCommitted(files_, PathOf(name)));
    if (!committed) return std::optional<Snapshot>();
    LOCKSTEP_ASSIGN_OR_RETURN(Snapshot snapshot, LoadSnapshot(files_, PathOf(name), model_hash,
                                                              CheckpointParts::kModelAndOptimizer));
    return std::optional<Snapshot>(std::move(snapshot));
  }

  // Called once `saved` is durable. Removes checkpoints beyond those to keep and those known to be
  // damaged. A failure only costs disk space.
  void Prune(const api::CheckpointName& saved) {
    absl::StatusOr<std::vector<api::CheckpointName>> folders = Folders();
    if (!folders.ok()) return;
    if (keep_ == kKeepLastSaved) {
      std::erase(*folders, saved);
      for (const api::CheckpointName& name : *folders) RemoveOld(name);
      return;
    }
    std::sort(folders->begin(), folders->end(), std::greater<>());
    int kept = 0;
    std::optional<std::int64_t> last_step;
    for (const api::CheckpointName& name : *folders) {
      const bool superseded = last_step == name.step || damaged_.contains(name);
      if (name > saved && !superseded) continue;  // not saved by this run
      if (superseded || kept == keep_) {
        RemoveOld(name);
        continue;
      }
      ++kept;
      last_step = name.step;
    }
  }

  void RemoveOld(const api::CheckpointName& name) {
    const absl::Status removed = RemoveCheckpoint(files_, PathOf(name));
    if (removed.ok()) damaged_.erase(name);
    WarnIfError(removed, "an old checkpoint stays");
  }

  static void WarnIfError(const absl::Status& status, std::string_view what) {
    if (!status.ok()) LogWarning(what, {{"error", std::string(status.message())}});
  }

  FileSystem& files_;
  const std::string directory_;
  const int keep_;
  FolderClaim claim_;
  std::optional<api::CheckpointName> newest_;  // complete at the last LoadLatest
  std::optional<api::CheckpointName> saved_;   // by this process, the last one
  bool has_looked_ = false;                    // LoadLatest was called
  std::set<api::CheckpointName> damaged_;      // found by it
  std::set<api::CheckpointName> left_over_;    // found by RemoveLeftovers
};

}  // namespace

absl::Status RemoveCheckpoint(FileSystem& files, const std::string& path) {
  LOCKSTEP_RETURN_IF_ERROR(files.RemoveRecursively(path + "/" + api::kManifestName));
  LOCKSTEP_RETURN_IF_ERROR(files.SyncDirectory(path));
  return files.RemoveRecursively(path);
}

absl::StatusOr<std::unique_ptr<CheckpointStore>> CheckpointStore::Open(
    FileSystem& files, const std::string& directory, int keep, const CheckpointOwner& owner) {
  LOCKSTEP_CHECK(keep >= 1 || keep == kKeepLastSaved, "keep is {}", keep);
  LOCKSTEP_RETURN_IF_ERROR(files.CreateDirectories(directory));
  auto store =
      std::make_unique<FolderStore>(files, directory, keep, FolderClaim(files, directory, owner));
  LOCKSTEP_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace lockstep::train
