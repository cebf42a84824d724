// Without oneDNN row-major is the only order.
#include "trainer/backend/cpu/device/layout.h"

#include "base/check.h"

namespace lockstep::train::cpu {

ImageView ViewOf(const TensorDesc& tensor) {
  const Shape& shape = tensor.shape;
  LOCKSTEP_CHECK(shape.rank() >= 2, "cpu: tensor of shape {}, expected N,…", shape.ToString());
  LOCKSTEP_CHECK(tensor.dtype == DType::kFloat32, "cpu: tensor of shape {} is {}, expected float32",
                 shape.ToString(), DTypeName(tensor.dtype));
  LOCKSTEP_CHECK(tensor.dense(), "cpu: tensor of shape {} has layout {}, expected row-major",
                 shape.ToString(), tensor.layout->Fingerprint());
  ImageView view{.rows = shape[0], .channels = shape[1], .outer = shape[1]};
  if (shape.rank() == 4) {
    view.height = shape[2];
    view.width = shape[3];
  } else {
    for (int i = 2; i < shape.rank(); ++i) view.width *= shape[i];
  }
  return view;
}

TensorDesc WithExtents(const TensorDesc& like, const Shape& shape) {
  LOCKSTEP_CHECK(like.dense(), "cpu: tensor of shape {} has layout {}, expected row-major",
                 like.shape.ToString(), like.layout->Fingerprint());
  return {.shape = shape};
}

std::string NameOf(const TensorDesc& tensor) {
  return tensor.shape.rank() == 4 ? "nchw" : "nc";
}

}  // namespace lockstep::train::cpu
