#include <cstring>

#include "base/check.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

void Copy(const TensorDesc& tensor, const void* source, void* target) {
  LOCKSTEP_CHECK(tensor.dense(), "cpu: tensor of shape {} has layout {}, expected row-major",
                 tensor.shape.ToString(), tensor.layout->Fingerprint());
  std::memcpy(target, source, tensor.bytes());
}

}  // namespace

void ToDense(const Device& /*device*/, const TensorDesc& from, const void* source, float* target) {
  Copy(from, source, target);
}

void FromDense(const Device& /*device*/, const float* source, const TensorDesc& to, void* target) {
  Copy(to, source, target);
}

}  // namespace lockstep::train::cpu
