// Loss and accuracy over the test set, shared between the ranks: every sample counts once.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0, accuracy = 0;  // means over the test set
  std::int64_t examples = 0;
};

// Every rank calls it and gets the same answer. Errors as TrainStep's.
absl::StatusOr<Evaluation> Evaluate(Session& session, Strategy& strategy, int rank);

}  // namespace lockstep::train
