#include "trainer/backend/host_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace lockstep::train {
namespace {

class PastEvent final : public Event {
 public:
  void Wait() override {}
};

class ImmediateStream final : public Stream {
 public:
  std::shared_ptr<Event> Record() override { return std::make_shared<PastEvent>(); }
  void Wait(std::shared_ptr<Event>) override {}
  void Download(const void* device, void* host, std::size_t bytes) override {
    std::memmove(host, device, bytes);
  }
  void Upload(const void* host, void* device, std::size_t bytes) override {
    std::memmove(device, host, bytes);
  }
  void Call(std::function<void()> function) override { function(); }
};

}  // namespace

HostBackend::HostBackend() : stream_(std::make_unique<ImmediateStream>()) {}
HostBackend::~HostBackend() = default;

std::unique_ptr<Op> HostBackend::MakeOp(const OpSpec& spec) {
  if (TypeOf(spec) == DType::kFloat32) return FloatOp(spec);
  if (std::unique_ptr<Op> op = NativeOp(spec)) return op;
  return MakeLowPrecisionOp(FloatOp(WithType(spec, DType::kFloat32)), TypeOf(spec),
                            [this](const CastOperands& operands) { Cast(operands); });
}

std::unique_ptr<Op> HostBackend::MakeCast(const TensorDesc& x, DType to) {
  return MakeCastOp(x, to, [this](const CastOperands& operands) { Cast(operands); });
}

void HostBackend::Accumulate(const void* x, void* y, std::int64_t size, DType type) {
  if (type == DType::kFloat32) {
    AccumulateFloats(static_cast<const float*>(x), static_cast<float*>(y), size);
    return;
  }
  // In pieces that fit on the stack, so that nothing is allocated.
  constexpr std::int64_t kPiece = 1024;
  float addend[kPiece], sum[kPiece];
  for (std::int64_t begin = 0; begin < size; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, size - begin);
    const auto* x_piece = static_cast<const std::uint16_t*>(x) + begin;
    auto* y_piece = static_cast<std::uint16_t*>(y) + begin;
    Cast({.x = x_piece, .from = type, .y = addend, .to = DType::kFloat32, .size = count});
    Cast({.x = y_piece, .from = type, .y = sum, .to = DType::kFloat32, .size = count});
    AccumulateFloats(addend, sum, count);
    Cast({.x = sum, .from = DType::kFloat32, .y = y_piece, .to = type, .size = count});
  }
}

void HostBackend::ToDense(const TensorDesc& from, const void* source, float* target) {
  if (from.dtype == DType::kFloat32) {
    FloatsToDense(from, source, target);
    return;
  }
  std::vector<float> floats(static_cast<std::size_t>(from.elements()));
  Cast({.x = source,
        .from = from.dtype,
        .y = floats.data(),
        .to = DType::kFloat32,
        .size = std::ssize(floats)});
  FloatsToDense({.shape = from.shape, .layout = from.layout}, floats.data(), target);
}

void HostBackend::FromDense(const float* source, const TensorDesc& to, void* target) {
  if (to.dtype == DType::kFloat32) {
    FloatsFromDense(source, to, target);
    return;
  }
  std::vector<float> floats(static_cast<std::size_t>(to.elements()));
  FloatsFromDense(source, {.shape = to.shape, .layout = to.layout}, floats.data());
  Cast({.x = floats.data(),
        .from = DType::kFloat32,
        .y = target,
        .to = to.dtype,
        .size = std::ssize(floats)});
}

void HostBackend::Upload(const void* host, void* device, std::size_t bytes) {
  if (bytes > 0) std::memcpy(device, host, bytes);
}

void HostBackend::Download(const void* device, void* host, std::size_t bytes) {
  if (bytes > 0) std::memcpy(host, device, bytes);
}

void HostBackend::Copy(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void HostBackend::Zero(void* memory, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, 0, bytes);
}

std::unique_ptr<Stream> HostBackend::MakeStream() {
  return std::make_unique<ImmediateStream>();
}

void HostBackend::WriteTail(const LossTotals& totals, StepTail& tail) {
  tail.loss = static_cast<float>(totals.loss);
  tail.correct = static_cast<float>(totals.correct);
}

void HostBackend::DecideUpdate(const UpdateMemory& memory) {
  const double squared_norm = *memory.is_summed ? SquaredNormOf(memory.gradients, memory.size) : 0;
  *memory.result = train::DecideUpdate(*memory.settings, *memory.is_summed, squared_norm,
                                       *memory.tail, *memory.gate, *memory.update);
  std::copy_n(memory.update->applies ? memory.summed_states : memory.saved_states,
              memory.states_size, memory.states);
}

bool HostBackend::AllFinite(const float* values, std::int64_t size) {
  constexpr std::uint32_t kExponent = 0x7f800000;  // all ones: infinity or NaN
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    found |= (std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent ? 1u : 0u;
  }
  return found == 0;
}

}  // namespace lockstep::train
