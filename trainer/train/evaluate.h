// Loss and accuracy over the test set, shared between the ranks: every sample counts once.
#pragma once

#include <functional>
#include <optional>
#include <variant>

#include "trainer/rendezvous/rendezvous.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0, accuracy = 0;  // means over the test set
  std::int64_t examples = 0;
};

// Every rank calls it and gets the same answer. Nothing: a pod was asked to stop; the ranks agree
// on that after each batch, since a test set may take longer than a pod's grace period. An outcome
// is kGenerationOver, or kFailed if a sample cannot be read. `batch_done` is called after each.
std::variant<std::optional<Evaluation>, LoopOutcome> Evaluate(
    Session& session, Strategy& strategy, const Rendezvous& rendezvous, int rank,
    const std::function<void()>& batch_done);

}  // namespace lockstep::train
