// What the Muon of every back end has in common: which values are matrices, the order of the
// products, and the memory between them. See MuonSpec for the formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/backend/scratch_plan.h"

namespace lockstep::train {

// c = a b of row-major float32 matrices, where a is rows x inner and b is inner x columns. Memory
// has inner x rows of a transposed a, and columns x inner of a transposed b.
struct MatrixProductShape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool a_transposed = false, b_transposed = false;
};

// The products of a matrix x with the smaller extent k, in the order in which a step needs them.
enum class MuonProduct {
  kGram,    // k x k: x x^T, or x^T x if x has more rows than columns
  kSquare,  // k x k: gram gram
  kApply    // of x's shape: square x, or x square
};
inline constexpr MuonProduct kMuonProducts[] = {MuonProduct::kGram, MuonProduct::kSquare,
                                                MuonProduct::kApply};
MatrixProductShape ShapeOf(const MatrixRange& matrix, MuonProduct product);

// A bound matrix.
struct MuonMatrix {
  std::size_t index = 0;  // in MuonSpec::matrices
  std::int64_t size = 0;
  float* values = nullptr;
  const float* gradients = nullptr;
  float* m = nullptr;
  float weight_decay = 0;  // 0 if it does not decay
  float rate_ratio = 1;    // what the learning rate is multiplied by
};

class MuonOptimizer : public OptimizerOp {
 public:
  using MakeAdam = std::function<std::unique_ptr<OptimizerOp>(const AdamSpec&)>;
  int Slots() const final { return 2; }
  std::size_t ScratchBytes() const final { return scratch_.bytes(); }
  void Bind(const OptimizerMemory& memory) final;
  void Step() final;

 protected:
  MuonOptimizer(const MuonSpec& spec, const MakeAdam& make_adam);
  // Plans the memory between the products, and `work_bytes` for Work(). The constructor of a
  // derived class calls it last.
  void PlanScratch(std::size_t work_bytes);

  // True if the host knows that the step that is bound does not apply. What follows then is not
  // called; else it must not change the matrices if the step does not apply.
  virtual bool IsSkipped() const = 0;
  // Updates m, and writes u, divided by MuonDivisor, to x.
  virtual void Direct(const MuonMatrix& matrix, float* x) = 0;
  // c = the product `of` matrix number `index`, of a and b.
  virtual void Multiply(std::size_t index, MuonProduct of, const float* a, const float* b,
                        float* c) = 0;
  // y = a * x + b * y
  virtual void Combine(float a, const float* x, float b, float* y, std::int64_t size) = 0;
  // values = (1 - lr * decay) * values - (lr * rate_ratio) * x
  virtual void Move(const MuonMatrix& matrix, const float* x) = 0;

  const MuonSpec& spec() const { return spec_; }
  const OptimizerStep& step() const { return *memory_.step; }
  void* Work() const { return At<void>(work_at_); }

 private:
  template <typename T>
  T* At(std::size_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(memory_.scratch) + offset);
  }
  // Returns where the result is; `x` is overwritten.
  const float* Orthogonalize(const MuonMatrix& matrix, float* x);

  const MuonSpec spec_;
  // Those of the values before each matrix and after the last.
  std::vector<std::unique_ptr<OptimizerOp>> others_;
  std::vector<OptimizerOp*> bound_others_;  // those that have values
  std::vector<MuonMatrix> matrices_;
  OptimizerMemory memory_;
  ScratchPlan scratch_;
  std::size_t x_at_ = 0, next_at_ = 0, gram_at_ = 0, square_at_ = 0, work_at_ = 0;
};

}  // namespace lockstep::train
