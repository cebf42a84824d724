#include "trainer/backend/cpu/device/execution.h"

#include <fmt/format.h>

namespace lockstep::train::cpu {

void Execution::Bind(int argument, const dnnl::memory::desc& desc, const void* data) {
  void* handle = const_cast<void*>(data);  // oneDNN uses one memory type for inputs and outputs
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].arg == argument) return memories_[i].set_data_handle(handle);
  }
  memories_.emplace_back(desc, device_->onednn->engine, handle);
  arguments_.push_back({argument, memories_.back().get()});
}

void Execution::Run() const {
  device_->Enter();
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), device_->onednn->stream.get(),
                             static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw DeviceError(fmt::format("oneDNN: primitive of kind {} failed with status {}",
                                  static_cast<int>(primitive_.get_kind()),
                                  static_cast<int>(status)));
  }
}

Reorder::Reorder(const Device& device, const dnnl::memory::desc& from, const dnnl::memory::desc& to)
    : from_(from), to_(to) {
  if (from == to) return;
  const dnnl::reorder::primitive_desc made(device.onednn->engine, from, device.onednn->engine, to,
                                           UserScratchpad());
  scratch_ = made.scratchpad_desc();
  execution_ = Execution(device, dnnl::reorder(made));
}

void Reorder::Bind(const void* from, void* to, void* scratch) {
  if (empty()) return;
  execution_.Bind(DNNL_ARG_FROM, from_, from);
  execution_.Bind(DNNL_ARG_TO, to_, to);
  execution_.Bind(DNNL_ARG_SCRATCHPAD, scratch_, scratch);
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace lockstep::train::cpu
