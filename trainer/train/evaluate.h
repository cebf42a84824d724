// Computes loss, accuracy and named metrics over the test set. The ranks share the work; every
// sample counts once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>

#include "trainer/strategy/strategy.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"

namespace lockstep::train {

struct Evaluation {
  double loss = 0, accuracy = 0;  // means over the test set
  std::int64_t examples = 0;
  api::TestMetrics metrics;  // those of training.evaluation.metrics
};

// Collective: every rank calls it, and all get the same result. Calls `batch_done` after each
// batch, because a test set may take longer than a pod's grace period; an outcome that it returns,
// on all ranks or on none, ends the evaluation. On failure, returns EndOfStrategy's outcome, or
// kFailed if a sample cannot be read.
std::variant<Evaluation, LoopOutcome> Evaluate(
    Session& session, Strategy& strategy, int rank,
    const std::function<std::optional<LoopOutcome>()>& batch_done);

// The same by one process, without its peers. Returns nullopt if it was asked to stop.
std::variant<std::optional<Evaluation>, LoopOutcome> EvaluateAlone(
    Session& session, const std::function<bool()>& stop_requested,
    const std::function<void()>& batch_done);

// Returns what a run ends with if the evaluation after `step` steps gave this loss: kDiverged, or
// nullopt if the loss is finite.
std::optional<LoopOutcome> DivergedFor(std::int64_t step, double loss);

}  // namespace lockstep::train
