#include "trainer/backend/joined_shape.h"

#include "base/check.h"

namespace lockstep::train {

Shape ShapeOf(const AddSpec& spec) {
  LOCKSTEP_CHECK(spec.x.size() >= 2, "add: found {} inputs, expected at least 2", spec.x.size());
  for (const TensorDesc& x : spec.x) {
    LOCKSTEP_CHECK(x.shape == spec.x[0].shape, "add: found inputs of {} and {}, expected equal",
                   spec.x[0].shape.ToString(), x.shape.ToString());
  }
  return spec.x[0].shape;
}

Shape ShapeOf(const ConcatenateSpec& spec) {
  LOCKSTEP_CHECK(spec.x.size() >= 2, "concatenate: found {} inputs, expected at least 2",
                 spec.x.size());
  std::vector<std::int64_t> dims = spec.x[0].shape.dims();
  std::int64_t sum = 0;
  for (const TensorDesc& x : spec.x) {
    LOCKSTEP_CHECK(x.shape.rank() == static_cast<int>(dims.size()),
                   "concatenate: found inputs of {} and {}, expected equal but for channels",
                   spec.x[0].shape.ToString(), x.shape.ToString());
    dims[1] = x.shape[1];
    LOCKSTEP_CHECK(Shape(dims) == x.shape,
                   "concatenate: found inputs of {} and {}, expected equal but for channels",
                   spec.x[0].shape.ToString(), x.shape.ToString());
    sum += x.shape[1];
  }
  dims[1] = sum;
  return Shape(dims);
}

}  // namespace lockstep::train
