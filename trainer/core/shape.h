// A tensor's extents, outermost first: N,C,H,W for images, N,K for matrices.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace lockstep::train {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::int64_t elements() const;  // 1 for rank 0
  std::string ToString() const;   // "[128,1,28,28]"
  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> dims_;
};

}  // namespace lockstep::train
