// A oneDNN primitive with its arguments, created once and run every step. In contrast,
// dnnl::primitive::execute builds and copies a map at every call.
#pragma once

#include <dnnl.hpp>
#include <vector>

#include "trainer/backend/cpu/device/onednn.h"

namespace lockstep::train::cpu {

class Execution {
 public:
  Execution() = default;
  Execution(const Device& device, dnnl::primitive primitive)
      : device_(&device), primitive_(std::move(primitive)) {}

  // Sets argument DNNL_ARG_… to `data` in the order of `desc`. A later call for the same argument
  // replaces `data` and ignores `desc`.
  void Bind(int argument, const dnnl::memory::desc& desc, const void* data);
  // Requires: !empty(), and all arguments are bound. Throws DeviceError if the primitive fails.
  void Run() const;
  bool empty() const { return device_ == nullptr; }

 private:
  const Device* device_ = nullptr;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

// A copy from one memory order to another; empty if they are equal.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Device& device, const dnnl::memory::desc& from, const dnnl::memory::desc& to);

  bool empty() const { return execution_.empty(); }
  std::size_t scratch_bytes() const { return empty() ? 0 : scratch_.get_size(); }
  // Bytes that it reads and writes; 0 if empty.
  std::size_t source_bytes() const { return empty() ? 0 : from_.get_size(); }
  std::size_t target_bytes() const { return empty() ? 0 : to_.get_size(); }
  // Does nothing if empty, like Run. `scratch` has scratch_bytes().
  void Bind(const void* from, void* to, void* scratch);
  void Run() const {
    if (!empty()) execution_.Run();
  }

 private:
  dnnl::memory::desc from_, to_, scratch_;
  Execution execution_;
};

// Attributes by which primitives use our scratch memory (OpMemory::scratch) and do not allocate.
dnnl::primitive_attr UserScratchpad();

}  // namespace lockstep::train::cpu
