// Tensors of one kind (parameters or states) in forward order, as they lie in one flat range.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

class FlatTensors {
 public:
  // Appends a tensor of the op named `op_name`, aligned to kArenaAlignment; adds its slot.
  void Append(const std::string& op_name, const ParameterDesc& parameter);
  const std::vector<TensorSlot>& slots() const { return slots_; }
  const std::vector<ParameterDesc>& descs() const { return descs_; }
  std::int64_t size() const { return size_; }  // floats

 private:
  std::vector<TensorSlot> slots_;
  std::vector<ParameterDesc> descs_;
  std::int64_t size_ = 0;
};

}  // namespace lockstep::train
