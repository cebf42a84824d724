#include "trainer/backend/cuda/layout/input_stage.h"

#include <utility>

namespace lockstep::train::cuda {

InputStage::InputStage(Device& device, CudaStream& compute)
    : compute_(compute), copies_(CudaStream::Make(device)), slots_{Slot(device), Slot(device)} {}

const void* InputStage::Upload(const void* host, std::size_t bytes) {
  Slot& slot = slots_[next_];
  void* const memory = slot.memory.Reserve(bytes);
  if (slot.consumed != nullptr) copies_->Wait(std::exchange(slot.consumed, nullptr));
  copies_->UploadNow(host, memory, bytes);
  compute_.Wait(copies_->Record());
  return memory;
}

void InputStage::Consumed() {
  slots_[next_].consumed = compute_.Record();
  next_ = (next_ + 1) % slots_.size();
}

}  // namespace lockstep::train::cuda
