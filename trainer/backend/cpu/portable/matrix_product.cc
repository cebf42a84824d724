#include "trainer/backend/cpu/matrix_product.h"

#include "trainer/backend/cpu/portable/multiply.h"

namespace lockstep::train::cpu {

struct MatrixProduct::State {
  const Device& device;
  MatrixProductShape shape;
};

MatrixProduct::MatrixProduct(const Device& device, const MatrixProductShape& shape)
    : state_(new State{device, shape}) {}
MatrixProduct::MatrixProduct(MatrixProduct&&) noexcept = default;
MatrixProduct::~MatrixProduct() = default;

std::size_t MatrixProduct::ScratchBytes() const {
  return MultiplyScratchBytes(state_->device);
}

void MatrixProduct::Run(const float* a, const float* b, float* c, void* scratch) {
  const MatrixProductShape& shape = state_->shape;
  Multiply(state_->device,
           {.m = shape.rows,
            .n = shape.columns,
            .k = shape.inner,
            .a = a,
            .a_row = shape.a_transposed ? 1 : shape.inner,
            .a_column = shape.a_transposed ? shape.rows : 1,
            .b = b,
            .b_row = shape.b_transposed ? 1 : shape.columns,
            .b_column = shape.b_transposed ? shape.inner : 1,
            .c = c,
            .c_row = shape.columns,
            .add = false},
           scratch);
}

const char* MatrixProduct::implementation() const {
  return "lockstep";
}

}  // namespace lockstep::train::cpu
