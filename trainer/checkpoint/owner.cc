#include "trainer/checkpoint/owner.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "absl/strings/cord.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr char kOwner[] = "owner.json";
constexpr char kOwnerDraft[] = "owner.json.tmp";
constexpr char kAnotherJob[] = "lockstep/folder-taken-by-another-job";  // payload of a status

bool IsOfKind(FileSystem::Kind kind, FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileSystem::Kind> found = files.KindOf(path);
  return found.ok() && *found == kind;
}

}  // namespace

bool CheckpointOwner::Supersedes(const CheckpointOwner& other) const {
  return std::tuple(attempt, pod_started, process_number) >=
         std::tuple(other.attempt, other.pod_started, other.process_number);
}

std::string CheckpointOwner::ToString() const {
  return fmt::format("job uid \"{}\", attempt {}, pod started {}, process {}", job_uid, attempt,
                     pod_started, process_number);
}

bool FolderOwner::HasTakenFrom(const std::string& job_uid) const {
  return std::ranges::find(earlier_jobs, job_uid) != earlier_jobs.end();
}

std::string EncodeOwner(const FolderOwner& owner) {
  nlohmann::ordered_json json = {{"jobUid", owner.process.job_uid},
                                 {"attempt", owner.process.attempt},
                                 {"podStarted", owner.process.pod_started},
                                 {"processNumber", owner.process.process_number}};
  if (!owner.earlier_jobs.empty()) json["earlierJobs"] = owner.earlier_jobs;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<FolderOwner> DecodeOwner(const std::string& text, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    FolderOwner owner;
    json.at("jobUid").get_to(owner.process.job_uid);
    json.at("attempt").get_to(owner.process.attempt);
    json.at("podStarted").get_to(owner.process.pod_started);
    // Both are absent in files of older versions; without a number, the pod's start is decisive.
    owner.process.process_number = json.value("processNumber", std::int64_t{0});
    owner.earlier_jobs = json.value("earlierJobs", std::vector<std::string>());
    return owner;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("{}: {}", path, error.what()));
  }
}

absl::StatusOr<std::optional<FolderOwner>> ReadOwner(FileSystem& files,
                                                     const std::string& directory) {
  const std::string path = directory + "/" + kOwner;
  const absl::StatusOr<std::string> text = files.ReadFile(path, kMostJsonBytes);
  if (absl::IsNotFound(text.status())) return std::optional<FolderOwner>();
  absl::StatusOr<FolderOwner> owner = text.ok() ? DecodeOwner(*text, path) : text.status();
  if (owner.ok()) return std::optional<FolderOwner>(*std::move(owner));
  if (!absl::IsDataLoss(owner.status())) return owner.status();
  LogWarning("the checkpoint folder's owner cannot be told",
             {{"error", std::string(owner.status().message())}});
  return std::optional<FolderOwner>();
}

bool IsTakenByAnotherJob(const absl::Status& status) {
  return status.GetPayload(kAnotherJob).has_value();
}

absl::Status FolderClaim::Take() {
  taken_ = false;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<FolderOwner> before, ReadOwner(files_, directory_));
  return TakeFrom(before);
}

absl::Status FolderClaim::TakeUnlessAnothers() {
  taken_ = false;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<FolderOwner> before, ReadOwner(files_, directory_));
  const bool is_anothers = before && before->process.job_uid != owner_.job_uid;
  // A job that has lost the folder learns that now, without loading a checkpoint.
  if (is_anothers && !before->HasTakenFrom(owner_.job_uid)) return absl::OkStatus();
  return TakeFrom(before);
}

absl::Status FolderClaim::TakeFrom(const std::optional<FolderOwner>& before) {
  FolderOwner claimed{.process = owner_};
  if (before) {
    const bool is_ours = before->process.job_uid == owner_.job_uid;
    if (is_ours ? !owner_.Supersedes(before->process) : before->HasTakenFrom(owner_.job_uid)) {
      return Superseded(*before);
    }
    claimed.earlier_jobs = before->earlier_jobs;
    // Jobs without a uid are indistinguishable, so they are not recorded.
    if (!is_ours && !before->process.job_uid.empty()) {
      claimed.earlier_jobs.push_back(before->process.job_uid);
    }
    while (claimed.earlier_jobs.size() > FolderOwner::kMostEarlierJobs) {
      claimed.earlier_jobs.erase(claimed.earlier_jobs.begin());
    }
  }
  const std::string text = EncodeOwner(claimed), draft = directory_ + "/" + kOwnerDraft;
  const absl::Status written = files_.WriteFile(draft, {std::as_bytes(std::span(text))});
  // An earlier process could create the draft but not rename it, and no later one can replace it.
  if (absl::IsPermissionDenied(written) && IsOfKind(FileSystem::Kind::kFile, files_, draft)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: found a file system that cannot replace files ({}), as some mounts of "
                    "object stores cannot; expected one that can remove and rename them",
                    directory_, std::string(written.message())));
  }
  LOCKSTEP_RETURN_IF_ERROR(written);
  const std::string path = directory_ + "/" + kOwner;
  const absl::Status renamed = files_.Rename(draft, path);
  if (absl::IsFailedPrecondition(renamed) && IsOfKind(FileSystem::Kind::kFolder, files_, path)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: found a folder, expected a file or nothing", path));
  }
  LOCKSTEP_RETURN_IF_ERROR(renamed);
  LOCKSTEP_RETURN_IF_ERROR(files_.SyncDirectory(directory_));
  taken_ = true;
  return absl::OkStatus();
}

absl::Status FolderClaim::Check() {
  if (!taken_) return Take();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<FolderOwner> now, ReadOwner(files_, directory_));
  if (!now) return Take();
  return now->process == owner_ ? absl::OkStatus() : Superseded(*now);
}

absl::Status FolderClaim::Superseded(const FolderOwner& by) const {
  const std::string path = directory_ + "/" + kOwner;
  const std::string taken_by = by.process.ToString(), own = owner_.ToString();
  if (by.process.job_uid == owner_.job_uid) {
    return absl::AbortedError(fmt::format(
        "{}: the folder belongs to a newer process ({}), this one is {}", path, taken_by, own));
  }
  absl::Status status = absl::AbortedError(
      fmt::format("{}: another job has taken the folder ({}), this process is {}: give each job a "
                  "checkpoint directory of its own; a job that is created anew may take this one",
                  path, taken_by, own));
  // Versions without earlierJobs do not record whom they took the folder from, and of two processes
  // that claim it at the same time, one may not have seen the other. In both cases a later process
  // of this job takes the folder back.
  if (by.HasTakenFrom(owner_.job_uid)) status.SetPayload(kAnotherJob, absl::Cord());
  return status;
}

}  // namespace lockstep::train
