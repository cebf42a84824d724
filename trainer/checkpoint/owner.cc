#include "trainer/checkpoint/owner.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <tuple>

#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr char kOwner[] = "owner.json";
constexpr char kOwnerDraft[] = "owner.json.tmp";

}  // namespace

bool CheckpointOwner::Supersedes(const CheckpointOwner& other) const {
  // Attempts of different jobs cannot be compared.
  const bool same_job = job_uid == other.job_uid;
  return std::tuple(same_job ? attempt : 0, pod_started, process_number) >=
         std::tuple(same_job ? other.attempt : 0, other.pod_started, other.process_number);
}

std::string CheckpointOwner::ToString() const {
  return fmt::format("job uid \"{}\", attempt {}, pod started {}, process {}", job_uid, attempt,
                     pod_started, process_number);
}

std::string EncodeOwner(const CheckpointOwner& owner) {
  const nlohmann::ordered_json json = {{"jobUid", owner.job_uid},
                                       {"attempt", owner.attempt},
                                       {"podStarted", owner.pod_started},
                                       {"processNumber", owner.process_number}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::StatusOr<CheckpointOwner> DecodeOwner(const std::string& text, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    CheckpointOwner owner;
    json.at("jobUid").get_to(owner.job_uid);
    json.at("attempt").get_to(owner.attempt);
    json.at("podStarted").get_to(owner.pod_started);
    // Absent in files of older versions; the pod's start time is then decisive.
    owner.process_number = json.value("processNumber", std::int64_t{0});
    return owner;
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(fmt::format("{}: {}", path, error.what()));
  }
}

absl::StatusOr<std::optional<CheckpointOwner>> ReadOwner(FileSystem& files,
                                                         const std::string& directory) {
  const std::string path = directory + "/" + kOwner;
  const absl::StatusOr<std::string> text = files.ReadFile(path, kMostJsonBytes);
  if (absl::IsNotFound(text.status())) return std::optional<CheckpointOwner>();
  absl::StatusOr<CheckpointOwner> owner = text.ok() ? DecodeOwner(*text, path) : text.status();
  if (owner.ok()) return std::optional<CheckpointOwner>(*std::move(owner));
  if (!absl::IsDataLoss(owner.status())) return owner.status();
  LogWarning("the checkpoint folder's owner cannot be told",
             {{"error", std::string(owner.status().message())}});
  return std::optional<CheckpointOwner>();
}

absl::Status FolderClaim::Take() {
  taken_ = false;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<CheckpointOwner> before,
                            ReadOwner(files_, directory_));
  if (before && !owner_.Supersedes(*before)) return Superseded(*before);
  const std::string text = EncodeOwner(owner_), draft = directory_ + "/" + kOwnerDraft;
  LOCKSTEP_RETURN_IF_ERROR(files_.WriteFile(draft, {std::as_bytes(std::span(text))}));
  const std::string path = directory_ + "/" + kOwner;
  const absl::Status renamed = files_.Rename(draft, path);
  if (absl::IsFailedPrecondition(renamed)) {
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
  LOCKSTEP_ASSIGN_OR_RETURN(const std::optional<CheckpointOwner> now,
                            ReadOwner(files_, directory_));
  if (!now) return Take();
  return *now == owner_ ? absl::OkStatus() : Superseded(*now);
}

absl::Status FolderClaim::Superseded(const CheckpointOwner& by) const {
  return absl::AbortedError(
      fmt::format("{}/{}: the folder belongs to a newer process ({}), this one is {}", directory_,
                  kOwner, by.ToString(), owner_.ToString()));
}

}  // namespace lockstep::train
