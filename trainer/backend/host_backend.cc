#include "trainer/backend/host_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>

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
