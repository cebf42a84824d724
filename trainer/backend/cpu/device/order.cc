#include <cstring>
#include <vector>

#include "trainer/backend/cpu/device/execution.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/backend/cpu/ops.h"

namespace lockstep::train::cpu {
namespace {

void Copy(const Device& device, const dnnl::memory::desc& from, const void* source,
          const dnnl::memory::desc& to, void* target) {
  device.Enter();
  Guarded("reorder", [&] {
    Reorder reorder(device, from, to);
    if (reorder.empty()) {
      std::memcpy(target, source, from.get_size());
      return;
    }
    std::vector<std::byte> scratch(reorder.scratch_bytes());
    reorder.Bind(source, target, scratch.data());
    reorder.Run();
  });
}

// The row-major order for the extents of `desc`.
dnnl::memory::desc DenseLike(const dnnl::memory::desc& desc) {
  return DenseMemoryDesc(Shape(desc.get_dims()));
}

}  // namespace

void ToDense(const Device& device, const TensorDesc& from, const void* source, float* target) {
  if (from.dense()) {
    std::memcpy(target, source, from.bytes());
    return;
  }
  const dnnl::memory::desc desc = MemoryDescOf(from);
  Copy(device, desc, source, DenseLike(desc), target);
}

void FromDense(const Device& device, const float* source, const TensorDesc& to, void* target) {
  if (to.dense()) {
    std::memcpy(target, source, to.bytes());
    return;
  }
  const dnnl::memory::desc desc = MemoryDescOf(to);
  Copy(device, DenseLike(desc), source, desc, target);
}

}  // namespace lockstep::train::cpu
