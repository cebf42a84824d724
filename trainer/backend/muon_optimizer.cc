#include "trainer/backend/muon_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "trainer/backend/segments.h"

namespace lockstep::train {
namespace {

// The coefficients of the Newton-Schulz iteration (Jordan, 2024). They make small singular values
// grow fast, and leave all of them near 1.
constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

std::int64_t GramExtent(const MatrixRange& matrix) {
  return std::min(matrix.rows, matrix.columns);
}

bool IsTall(const MatrixRange& matrix) {
  return matrix.rows > matrix.columns;
}

}  // namespace

MatrixProductShape ShapeOf(const MatrixRange& matrix, MuonProduct product) {
  const std::int64_t k = GramExtent(matrix);
  const bool is_tall = IsTall(matrix);
  switch (product) {
    case MuonProduct::kGram:
      return {.rows = k,
              .columns = k,
              .inner = std::max(matrix.rows, matrix.columns),
              .a_transposed = is_tall,
              .b_transposed = !is_tall};
    case MuonProduct::kSquare:
      return {.rows = k, .columns = k, .inner = k};
    case MuonProduct::kApply:
      break;
  }
  return {.rows = matrix.rows, .columns = matrix.columns, .inner = k};
}

MuonOptimizer::MuonOptimizer(const MuonSpec& spec, const MakeAdam& make_adam) : spec_(spec) {
  LOCKSTEP_CHECK(spec.steps > 0, "muon: found {} steps, expected at least 1", spec.steps);
  std::int64_t end = 0;
  for (const MatrixRange& matrix : spec_.matrices) {
    LOCKSTEP_CHECK(matrix.begin >= end && matrix.rows > 0 && matrix.columns > 0,
                   "muon: found a matrix of {} x {} values from {}, expected at least one value, "
                   "from {} on",
                   matrix.rows, matrix.columns, matrix.begin, end);
    end = matrix.end();
  }
  for (std::size_t i = 0; i <= spec_.matrices.size(); ++i) others_.push_back(make_adam(spec.adam));
}

// The matrices use the same memory one after the other.
void MuonOptimizer::PlanScratch(std::size_t work_bytes) {
  std::int64_t size = 0, gram = 0;
  for (const MatrixRange& matrix : spec_.matrices) {
    size = std::max(size, matrix.size());
    gram = std::max(gram, GramExtent(matrix) * GramExtent(matrix));
  }
  const auto reserve = [this](std::int64_t floats) {
    return scratch_.Reserve(static_cast<std::size_t>(floats) * sizeof(float));
  };
  x_at_ = reserve(size);
  next_at_ = reserve(size);
  gram_at_ = reserve(gram);
  square_at_ = reserve(gram);
  work_at_ = scratch_.Reserve(work_bytes);
}

void MuonOptimizer::Bind(const OptimizerMemory& memory) {
  CheckOptimizerMemory("muon", memory, Slots());
  const std::int64_t last = spec_.matrices.empty() ? 0 : spec_.matrices.back().end();
  LOCKSTEP_CHECK(last <= memory.size, "muon: found matrices up to {}, expected up to {}", last,
                 memory.size);
  LOCKSTEP_CHECK(spec_.matrices.empty() || memory.scratch != nullptr,
                 "muon: found no scratch, expected {} bytes", ScratchBytes());
  memory_ = memory;
  matrices_.clear();
  bound_others_.clear();
  const auto bind_other = [&](std::size_t i, std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    others_[i]->Bind(PartOf(memory, begin, end));
    bound_others_.push_back(others_[i].get());
  };
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < spec_.matrices.size(); ++i) {
    const MatrixRange& range = spec_.matrices[i];
    bind_other(i, begin, range.begin);
    begin = range.end();
    const OptimizerMemory part = PartOf(memory, range.begin, range.end());
    LOCKSTEP_CHECK(part.segments.size() == 1, "muon: found a matrix in {} segments, expected one",
                   part.segments.size());
    const auto longest = static_cast<float>(std::max(range.rows, range.columns));
    matrices_.push_back(
        {.index = i,
         .size = part.size,
         .values = part.values,
         .gradients = part.gradients,
         .m = part.slots[0],
         .weight_decay = part.segments[0].decays ? spec_.adam.weight_decay : 0,
         .rate_ratio = spec_.rms_rate == 0 ? 1 : spec_.rms_rate * std::sqrt(longest)});
  }
  bind_other(spec_.matrices.size(), begin, memory.size);
}

void MuonOptimizer::Step() {
  for (OptimizerOp* other : bound_others_) other->Step();
  if (IsSkipped()) return;
  for (const MuonMatrix& matrix : matrices_) {
    auto* x = At<float>(x_at_);
    Direct(matrix, x);
    Move(matrix, Orthogonalize(matrix, x));
  }
}

const float* MuonOptimizer::Orthogonalize(const MuonMatrix& matrix, float* x) {
  const MatrixRange& range = spec_.matrices[matrix.index];
  const std::int64_t grams = GramExtent(range) * GramExtent(range);
  auto *next = At<float>(next_at_), *gram = At<float>(gram_at_), *square = At<float>(square_at_);
  for (int i = 0; i < spec_.steps; ++i) {
    Multiply(matrix.index, MuonProduct::kGram, x, x, gram);
    Multiply(matrix.index, MuonProduct::kSquare, gram, gram, square);
    Combine(kB, gram, kC, square, grams);
    if (IsTall(range)) {
      Multiply(matrix.index, MuonProduct::kApply, x, square, next);
    } else {
      Multiply(matrix.index, MuonProduct::kApply, square, x, next);
    }
    Combine(kA, x, 1, next, matrix.size);
    std::swap(x, next);
  }
  return x;
}

}  // namespace lockstep::train
