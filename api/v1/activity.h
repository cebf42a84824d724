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

// Which part of a training step a replica is in.
enum class StepPart {
  kUnknown = 0,  // in no step, or an older trainer
  kInput = 1,    // waits for its next batch, or copies it
  kCompute = 2,  // computes its gradients
  kPeers = 3,    // has done its part, and waits for the others' (or for its device)
};

}  // namespace lockstep::api
