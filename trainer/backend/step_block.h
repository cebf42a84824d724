// The few numbers of a step that are not tensors. They lie in device memory, so that a step can be
// queued, or recorded once and replayed, without the host: the host uploads the settings before the
// step's first op and downloads the result after its last. All types are trivially copyable.
#pragma once

#include <cmath>
#include <cstdint>

#include "trainer/core/count_limbs.h"
#include "trainer/core/device_code.h"

namespace lockstep::train {

// What the ops of a step read; uploaded before each forward pass.
struct StepContext {
  std::int64_t valid = 0;  // leading rows of the batch with real samples; the rest is padding
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
  std::uint64_t first_position = 0;  // global position of row 0, for dropout's counters
};

// What a loss adds to.
struct LossTotals {
  double loss = 0;     // weighted sum
  double correct = 0;  // weighted sum of what the loss measures besides: see its spec
};

// The end of the all-reduced buffer, after gradients and states, so that a step needs only one sum.
// All fields are sums over ranks.
struct StepTail {
  static constexpr int kHashLimbs = 8;  // 8 bits each, so that float sums are exact
  float loss = 0, correct = 0;
  float stop_requests = 0;
  float hash_limbs[kHashLimbs] = {};
  CountLimbs examples;
  float unused[3] = {};
};
static_assert(sizeof(StepTail) == 64);
inline void SetExamples(StepTail& tail, std::int64_t examples) {
  tail.examples = SplitCount(static_cast<double>(examples));
}
// The sum of all ranks' examples, whatever the batch.
inline std::int64_t ExamplesOf(const StepTail& tail) {
  return static_cast<std::int64_t>(JoinCount(tail.examples));
}
inline void SetHash(StepTail& tail, std::uint64_t hash) {
  for (int limb = 0; limb < StepTail::kHashLimbs; ++limb) {
    tail.hash_limbs[limb] = static_cast<float>((hash >> (8 * limb)) & 0xff);
  }
}
// The sum of all ranks' hashes, modulo 2^64.
inline std::uint64_t HashOf(const StepTail& tail) {
  std::uint64_t hash = 0;
  for (int limb = 0; limb < StepTail::kHashLimbs; ++limb) {
    hash += static_cast<std::uint64_t>(tail.hash_limbs[limb]) << (8 * limb);
  }
  return hash;
}

// What an optimizer reads.
struct OptimizerStep {
  bool applies = true;  // false: the update changes nothing
  float learning_rate = 0;
  std::int64_t step = 1;     // counts updates from 1; skipped ones do not count
  float gradient_scale = 1;  // the update's gradient is scale * gradients
};

// Consecutive values that share the settings of an update: with LARS and LAMB those of one tensor.
struct OptimizerSegment {
  std::int64_t begin = 0, end = 0;
  bool decays = true;  // false: no weight decay, and no trust other than 1
};
// Part of segment number `segment`.
struct OptimizerPiece {
  std::int64_t begin = 0, end = 0, segment = 0;
};

// How a step's update is decided. Uploaded before each step.
struct UpdateSettings {
  float learning_rate = 0;
  std::int64_t step = 1;               // counts from 1; skipped ones count
  double clip_norm = 0;                // of the whole gradient; 0: no limit
  std::int64_t may_skip_in_a_row = 0;  // consecutive updates that need not be finite
  bool adapts_loss_scale = false;      // see LossScale
  // Set if a rank has only a part of the gradient: the squared norm of all of it. Else that of the
  // gradients here counts.
  bool has_squared_norm = false;
  double squared_norm = 0;
};

// A factor of the loss, and so of all gradients, that keeps small gradients from becoming 0 in
// float16 (Micikevicius et al., "Mixed precision training", 2018). As in Keras' LossScaleOptimizer:
// a gradient that is not finite halves it, and the step is skipped; kGrowthSteps updates in a row
// double it.
struct LossScale {
  static constexpr float kLargest = 0x1p24f;
  static constexpr std::int64_t kGrowthSteps = 2000;
  float value = 1;           // at least 1
  std::int64_t updates = 0;  // since it changed

  bool operator==(const LossScale&) const = default;
};
inline constexpr LossScale kInitialLossScale{.value = 0x1p15f};

// Outlives a step. Once closed, no later update applies until the host uploads a new one.
struct UpdateGate {
  bool closed = false;
  std::int64_t skipped_in_a_row = 0;
  std::int64_t skipped_steps = 0;  // since the run began
  LossScale loss_scale;
};

enum class UpdateOutcome : std::int32_t {
  kApplied,
  kSkipped,    // the loss or a gradient is not finite and the step may be skipped, or a gradient
               // is not finite and a smaller loss scale may help
  kNotFinite,  // likewise, but it may not be skipped; closes the gate
  kNotSummed,  // the sum over ranks has failed; closes the gate
  kClosed,     // an earlier step has closed the gate
};

struct StepResult {
  UpdateOutcome outcome = UpdateOutcome::kNotSummed;
  double gradient_norm = 0;  // of the mean gradient, before it is clipped
  LossScale loss_scale;      // of the next step
  StepTail tail;
};

// Decides whether a step's update applies, and with which scale: a gradient whose norm is above the
// threshold is scaled down to it (Pascanu, Mikolov and Bengio, "On the difficulty of training
// recurrent neural networks", 2013, algorithm 1). All ranks hold the same sums to the bit, so all
// decide alike. `is_summed`: the sum over ranks has succeeded. If it has not, the sum may still be
// written to, so neither `tail` nor `squared_norm` is used. Pure.
LOCKSTEP_ALSO_ON_GPU inline StepResult DecideUpdate(const UpdateSettings& settings, bool is_summed,
                                                    double squared_norm, const StepTail& tail,
                                                    UpdateGate& gate, OptimizerStep& update) {
  StepResult result;
  LossScale& scale = gate.loss_scale;
  if (is_summed) {
    const double squared = settings.has_squared_norm ? settings.squared_norm : squared_norm;
    result.gradient_norm = std::sqrt(squared) / static_cast<double>(scale.value);
    result.tail = tail;
  }
  const double norm = result.gradient_norm;
  const float loss = result.tail.loss;
  // The loss reveals bad parameters before the update, the gradients those after it.
  const bool is_finite = std::isfinite(loss) && std::isfinite(norm);
  const bool may_shrink = settings.adapts_loss_scale && scale.value > 1 && std::isfinite(loss);
  if (gate.closed) {
    result.outcome = UpdateOutcome::kClosed;
  } else if (!is_summed) {
    result.outcome = UpdateOutcome::kNotSummed;
  } else if (is_finite) {
    result.outcome = UpdateOutcome::kApplied;
  } else if (may_shrink || gate.skipped_in_a_row < settings.may_skip_in_a_row) {
    result.outcome = UpdateOutcome::kSkipped;
  } else {
    result.outcome = UpdateOutcome::kNotFinite;
  }
  const bool applies = result.outcome == UpdateOutcome::kApplied;
  const bool skips = result.outcome == UpdateOutcome::kSkipped;
  gate.closed = !applies && !skips;
  // Adam's corrections assume that the moments hold as many gradients.
  update.step = settings.step - gate.skipped_steps;
  if (applies) gate.skipped_in_a_row = 0;
  if (skips) {
    ++gate.skipped_in_a_row;
    ++gate.skipped_steps;
  }
  const float used_scale = scale.value;
  if (settings.adapts_loss_scale && applies && ++scale.updates == LossScale::kGrowthSteps) {
    const float doubled = 2 * scale.value;  // kLargest has no address on a GPU, so no std::min
    scale = {.value = doubled < LossScale::kLargest ? doubled : LossScale::kLargest};
  } else if (skips && may_shrink) {
    scale = {.value = scale.value / 2};
  }
  result.loss_scale = scale;
  const bool clips = settings.clip_norm > 0 && norm > settings.clip_norm;
  update.applies = applies;
  update.learning_rate = settings.learning_rate;
  update.gradient_scale =
      (clips ? static_cast<float>(settings.clip_norm / norm) : 1.0f) / used_scale;
  return result;
}

}  // namespace lockstep::train
