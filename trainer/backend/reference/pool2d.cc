#include <limits>

#include "trainer/backend/reference/bound_op.h"
#include "trainer/backend/reference/ops.h"
#include "trainer/backend/window.h"

namespace lockstep::train::reference {
namespace {

// Both kinds slide a window over every N,C plane and ignore padding.
class Pool2d : public BoundOp {
 public:
  Pool2d(const Pool2dSpec& spec, const WindowAxis& rows, const WindowAxis& columns)
      : BoundOp("pool2d", spec.x, {spec.x.shape[0], spec.x.shape[1], rows.out, columns.out}),
        rows_(rows),
        columns_(columns),
        planes_(spec.x.shape[0] * spec.x.shape[1]) {}

 protected:
  // Visits (plane, p, q, index into y) of every output.
  template <typename Visit>
  void ForEachOutput(Visit visit) const {
    std::int64_t out = 0;
    for (std::int64_t plane = 0; plane < planes_; ++plane) {
      for (std::int64_t p = 0; p < rows_.out; ++p) {
        for (std::int64_t q = 0; q < columns_.out; ++q) visit(plane, p, q, out++);
      }
    }
  }

  // Visits the index into x of every element under the window of an output.
  template <typename Visit>
  void ForEachInput(std::int64_t plane, std::int64_t p, std::int64_t q, Visit visit) const {
    for (std::int64_t r = rows_.First(p); r < rows_.Last(p); ++r) {
      for (std::int64_t s = columns_.First(q); s < columns_.Last(q); ++s) {
        const std::int64_t h = p * rows_.stride - rows_.pad_begin + r;
        const std::int64_t w = q * columns_.stride - columns_.pad_begin + s;
        visit((plane * rows_.in + h) * columns_.in + w);
      }
    }
  }

  double WindowArea(std::int64_t p, std::int64_t q) const {
    return static_cast<double>((rows_.Last(p) - rows_.First(p)) *
                               (columns_.Last(q) - columns_.First(q)));
  }

 private:
  WindowAxis rows_, columns_;
  std::int64_t planes_;
};

// y = act(max of the window). dx gets dy at the first maximum in row-major order.
class MaxPool2d final : public Pool2d {
 public:
  MaxPool2d(const Pool2dSpec& spec, const WindowAxis& rows, const WindowAxis& columns)
      : Pool2d(spec, rows, columns), relu_(spec.relu) {}

  // The index into x of each output's maximum.
  std::size_t WorkspaceBytes() const override {
    return static_cast<std::size_t>(output().shape.elements()) * sizeof(std::int64_t);
  }

  void Forward(Mode, const StepContext&) override {
    std::int64_t* chosen = workspace<std::int64_t>();
    ForEachOutput([&](std::int64_t plane, std::int64_t p, std::int64_t q, std::int64_t out) {
      float best = -std::numeric_limits<float>::infinity();
      std::int64_t best_index = -1;
      ForEachInput(plane, p, q, [&](std::int64_t in) {
        // NaN wins, so that a pool does not hide divergence.
        if (best_index < 0 || x()[in] > best || (x()[in] != x()[in] && best == best)) {
          best = x()[in];
          best_index = in;
        }
      });
      chosen[out] = best_index;
      y()[out] = relu_ && best < 0 ? 0.0f : best;
    });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    if (relu_) MaskByRelu(y(), dy(), output().shape.elements());
    std::fill_n(dx(), input().shape.elements(), 0.0f);
    const std::int64_t* chosen = workspace<std::int64_t>();
    for (std::int64_t out = 0; out < output().shape.elements(); ++out) {
      dx()[chosen[out]] += dy()[out];
    }
  }

 private:
  bool relu_;
};

// y = mean of the window's part inside the image. dx gets equal shares of dy.
class AveragePool2d final : public Pool2d {
 public:
  using Pool2d::Pool2d;

  void Forward(Mode, const StepContext&) override {
    ForEachOutput([&](std::int64_t plane, std::int64_t p, std::int64_t q, std::int64_t out) {
      double sum = 0;
      ForEachInput(plane, p, q, [&](std::int64_t in) { sum += x()[in]; });
      y()[out] = static_cast<float>(sum / WindowArea(p, q));
    });
  }

  void Backward(const StepContext&) override {
    if (dx() == nullptr) return;
    std::fill_n(dx(), input().shape.elements(), 0.0f);
    ForEachOutput([&](std::int64_t plane, std::int64_t p, std::int64_t q, std::int64_t out) {
      const float share = static_cast<float>(dy()[out] / WindowArea(p, q));
      ForEachInput(plane, p, q, [&](std::int64_t in) { dx()[in] += share; });
    });
  }
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Pool2dSpec& spec) {
  const auto [rows, columns] = WindowsOf(spec);
  if (spec.kind == PoolKind::kMax) return std::make_unique<MaxPool2d>(spec, rows, columns);
  LOCKSTEP_CHECK(!spec.relu, "pool2d: relu is for max pools only");
  return std::make_unique<AveragePool2d>(spec, rows, columns);
}

}  // namespace lockstep::train::reference
