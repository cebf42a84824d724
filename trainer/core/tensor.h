// Describes tensors. The model plans their memory (see arena.h) and gives ops plain pointers to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "trainer/core/dtype.h"
#include "trainer/core/shape.h"

namespace lockstep::train {

// A backend's private order of elements in memory, such as a blocked layout. Immutable.
class Layout {
 public:
  virtual ~Layout() = default;
  // Elements in memory, padding included.
  virtual std::int64_t Elements() const = 0;
  // Equal for equal layouts, across processes and machines.
  virtual std::string Fingerprint() const = 0;
};

// Logical shape, element type and physical layout; no layout means dense row-major.
struct TensorDesc {
  Shape shape = {};
  DType dtype = DType::kFloat32;
  std::shared_ptr<const Layout> layout = nullptr;

  // In memory.
  std::int64_t elements() const { return layout ? layout->Elements() : shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * SizeOf(dtype); }
  bool dense() const { return layout == nullptr; }
};

}  // namespace lockstep::train
