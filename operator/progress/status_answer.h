// What a leading pod's answer says. Pure. Answers are untrusted: a tenant's program may have sent
// them in the trainer's place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/v1/activity.h"
#include "api/v1/training_job.h"
#include "operator/controller/state/progress_source.h"

namespace lockstep::proto {
class GetStatusResponse;
class TrainerProgress;
}  // namespace lockstep::proto

namespace lockstep::progress {

// What a leading pod last reported about its group, for display.
struct GroupState {
  // Replicas that the rendezvous waits for, such as "worker 1"; at most the first 256.
  std::vector<std::string> missing;
  api::Activity activity = api::Activity::kUnknown;  // of rank 0
  std::optional<bool> evaluator_misses_checkpoints;  // see GroupReport
  bool keeps_workers = false;                        // as told
};

// The longest nonce that is kept; a trainer's has some 80 bytes.
inline constexpr std::size_t kLongestNonce = 256;

// False for an answer that contains only a nonce: the trainer got no proof, or not that of its own
// token. Another job's pod may have taken over the address.
bool IsReportOf(const proto::GetStatusResponse& said, const std::string& job_uid);
// Returns the progress as told; numbers that JSON cannot hold are left out, but those of
// evaluations are kept: see NoteEvaluation. The caller checks the ranges (api::IsInRange).
api::Progress ProgressIn(const proto::TrainerProgress& message);
// Returns the first 8 stragglers whose names are those of pods.
std::vector<controller::Straggler> StragglersIn(const proto::GetStatusResponse& message);
// Returns what the answer says about the group. An unknown activity is kUnknown.
GroupState GroupIn(const proto::GetStatusResponse& message);

}  // namespace lockstep::progress
