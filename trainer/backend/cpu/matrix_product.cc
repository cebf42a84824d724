#include "trainer/backend/cpu/matrix_product.h"

#include <string>

#include "trainer/backend/cpu/device/execution.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;

// A matrix of rows x columns; `transposed`: memory has columns x rows.
memory::desc DescOf(std::int64_t rows, std::int64_t columns, bool transposed = false) {
  return {{rows, columns},
          memory::data_type::f32,
          transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

}  // namespace

struct MatrixProduct::State {
  State(const Device& device, const MatrixProductShape& shape)
      : made(device.onednn->engine, DescOf(shape.rows, shape.inner, shape.a_transposed),
             DescOf(shape.inner, shape.columns, shape.b_transposed),
             DescOf(shape.rows, shape.columns), UserScratchpad()),
        name(made.impl_info_str()),
        execution(device, dnnl::matmul(made)) {
    Bind(nullptr, nullptr, nullptr, nullptr);  // so that a step makes no arguments
  }

  void Bind(const float* a, const float* b, float* c, void* scratch) {
    execution.Bind(DNNL_ARG_SRC, made.src_desc(), a);
    execution.Bind(DNNL_ARG_WEIGHTS, made.weights_desc(), b);
    execution.Bind(DNNL_ARG_DST, made.dst_desc(), c);
    execution.Bind(DNNL_ARG_SCRATCHPAD, made.scratchpad_desc(), scratch);
  }

  dnnl::matmul::primitive_desc made;
  std::string name;
  Execution execution;
};

MatrixProduct::MatrixProduct(const Device& device, const MatrixProductShape& shape)
    : state_(Guarded("matrix product", [&] { return std::make_unique<State>(device, shape); })) {}
MatrixProduct::MatrixProduct(MatrixProduct&&) noexcept = default;
MatrixProduct::~MatrixProduct() = default;

std::size_t MatrixProduct::ScratchBytes() const {
  return state_->made.scratchpad_desc().get_size();
}

void MatrixProduct::Run(const float* a, const float* b, float* c, void* scratch) {
  state_->Bind(a, b, c, scratch);
  state_->execution.Run();
}

const char* MatrixProduct::implementation() const {
  return state_->name.c_str();
}

}  // namespace lockstep::train::cpu
