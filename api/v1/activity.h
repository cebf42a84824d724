// What a replica of the bundled trainer is doing, as it reports to the leading pod's supervisor.
#pragma once

namespace lockstep::api {

// The numbers match api/proto/trainer_status.proto.
enum class Activity {
  kUnknown = 0,       // not a member of a generation, or an older trainer
  kSharingState = 1,  // restores or shares the parameters that training continues from
  kStep = 2,
  kEvaluation = 3,
  kCheckpoint = 4,  // training waits until the checkpoint is written
};

}  // namespace lockstep::api
