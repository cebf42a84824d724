// Ops in shapes in which they may go wrong: what is compared with `reference`.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "trainer/backend/backend.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

struct OpCase {
  std::string name;
  Shape x;
  // The op for an x of that shape, in any layout and floating-point type. Thread-safe.
  std::function<OpSpec(const TensorDesc& x)> spec;
  StepSettings step{.training = true, .valid = 0};  // valid 0: all rows

  std::unique_ptr<Op> Make(Backend& backend, const TensorDesc& desc) const {
    return backend.MakeOp(spec(desc));
  }
};

// The case of an op with one input.
template <typename Spec>
OpCase CaseOf(std::string name, Shape x, const Spec& spec) {
  return {std::move(name), std::move(x), [spec](const TensorDesc& desc) -> OpSpec {
            Spec of_x = spec;
            of_x.x = desc;
            return of_x;
          }};
}

// For the names of tests.
inline void PrintTo(const OpCase& op_case, std::ostream* out) {
  *out << op_case.name;
}

std::vector<OpCase> Together(const std::vector<std::vector<OpCase>>& lists);

// Small shapes of every op, the awkward ones among them.
std::vector<OpCase> SmallCases();
std::vector<OpCase> ConvCases();  // those of convolutions

// The layers of core-cnn, and of ResNet-50 for images of 224 x 224; the oracle needs seconds for
// the latter.
std::vector<OpCase> CoreCnnCases();
std::vector<OpCase> ResNetCases();

}  // namespace lockstep::train
