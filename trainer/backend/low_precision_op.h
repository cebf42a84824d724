// Ops of 16-bit floating-point types on a host device, made of float32 ops: the inputs are cast to
// float32 before each pass and the results back after it. So every op has every type on every back
// end, at the price of the casts and of float32 copies in scratch memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// y[i] = x[i] as `to`. One of the types is float32, the other a floating-point type.
struct CastOperands {
  const void* x = nullptr;
  DType from = DType::kFloat32;
  void* y = nullptr;
  DType to = DType::kFloat32;
  std::int64_t size = 0;  // elements
};
using CastFunction = std::function<void(const CastOperands& operands)>;

// The type of the spec's inputs. Throws CheckFailure if they differ or are no floats.
DType TypeOf(const OpSpec& spec);
// The same op on inputs of another type.
OpSpec WithType(OpSpec spec, DType type);

// Returns the op `type` -> `type` that computes as `op`, which is of float32. Parameters of two
// axes or more are rounded to `type` before they are used.
std::unique_ptr<Op> MakeLowPrecisionOp(std::unique_ptr<Op> op, DType type, CastFunction cast);

// Backend::MakeCast.
std::unique_ptr<Op> MakeCastOp(const TensorDesc& x, DType to, CastFunction cast);

}  // namespace lockstep::train
