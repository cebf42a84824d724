// What a replica of the bundled trainer is doing, as it tells the leading pod's supervisor.
#pragma once

namespace lockstep::api {

// The numbers are those of api/proto/trainer_status.proto.
enum class Activity {
  kUnknown = 0,       // not a member of a generation, or an older trainer
  kSharingState = 1,  // restores or hands out the parameters that training goes on from
  kStep = 2,
  kEvaluation = 3,
  kCheckpoint = 4,  // training waits until it is written
};

}  // namespace lockstep::api
