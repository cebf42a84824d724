// One rank's share of a step or an evaluation if the model is cut into stages: one stage of one
// pipeline. The parts of a batch are the pipeline's micro-batches.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "trainer/data/loader.h"
#include "trainer/observe/phase_clock.h"
#include "trainer/strategy/stage_groups.h"
#include "trainer/train/loop_outcome.h"
#include "trainer/train/session.h"
#include "trainer/train/train_step.h"

namespace lockstep::train {

// As BeginStep in train_step.h, on all ranks of the group, and blocks until the step is done.
// `loader`: of a first stage, whose samples the others need; else null.
std::optional<LoopOutcome> RunStageStep(Session& session, Strategy& strategy, Loader* loader,
                                        const StepOptions& options, PhaseClock& phases);

// Computes the parts of a batch for an evaluation. `batch`: of a first stage; else null. Adds the
// loss's totals and the metrics in the last stage, and nothing in others. Errors are those of the
// links.
absl::Status EvaluateStage(Session& session, StageGroups& groups, const Batch* batch,
                           EvaluationMetrics& metrics);

}  // namespace lockstep::train
