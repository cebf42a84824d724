// A product of matrices that lie in memory as the caller has them. For optimizers: ops have
// products of their own, with the orders that are fastest for them.
#pragma once

#include <cstddef>
#include <memory>

#include "trainer/backend/cpu/device/device.h"
#include "trainer/backend/muon_optimizer.h"

namespace lockstep::train::cpu {

// The sums are float32, in an order that depends on the processor and on its number of threads.
class MatrixProduct {
 public:
  // Requires: `device` outlives the product.
  MatrixProduct(const Device& device, const MatrixProductShape& shape);
  MatrixProduct(MatrixProduct&&) noexcept;
  ~MatrixProduct();

  std::size_t ScratchBytes() const;
  // c = a b. Allocates nothing.
  void Run(const float* a, const float* b, float* c, void* scratch);
  // oneDNN's name of what computes it, or "lockstep".
  const char* implementation() const;

 private:
  struct State;  // of oneDNN, or of a build without it
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::train::cpu
