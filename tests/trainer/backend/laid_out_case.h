// A case with one of the layouts in which its input may come.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "trainer/check/op_cases.h"
#include "trainer/check/run_op.h"

namespace lockstep::train {

struct LaidOutCase {
  OpCase op_case;
  bool native;  // as the back end's own convolutions put it out; else dense

  std::unique_ptr<Op> Make(Backend& backend) const {
    return op_case.Make(backend,
                        native ? NativeDesc(backend, op_case.x) : TensorDesc{.shape = op_case.x});
  }
  std::string Name() const { return op_case.name + (native ? "Native" : "Dense"); }
};

inline void PrintTo(const LaidOutCase& laid_out, std::ostream* out) {
  *out << laid_out.Name();
}

// Each case dense, and each of an image native too: matrices have one order.
inline std::vector<LaidOutCase> InEveryLayout(const std::vector<OpCase>& cases) {
  std::vector<LaidOutCase> all;
  for (const OpCase& op_case : cases) {
    all.push_back({op_case, /*native=*/false});
    if (op_case.x.rank() == 4) all.push_back({op_case, /*native=*/true});
  }
  return all;
}

}  // namespace lockstep::train
