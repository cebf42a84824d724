// An image whose matrix of patches is larger than what is made of it at a time.
#include <gtest/gtest.h>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

OpOutputs RunLarge(const std::string& name, int threads) {
  const auto backend = MakeBackend({.name = name, .threads = threads});
  const auto conv = backend->MakeOp(Conv2dSpec{.x = {.shape = {2, 3, 70, 70}},
                                               .filters = 4,
                                               .kernel_h = 5,
                                               .kernel_w = 5,
                                               .padding = Padding::kSame,
                                               .relu = true});
  const StepSettings step{.training = true, .valid = 2};
  return RunOp(*backend, *conv, RandomInputs(*conv, 1), step);
}

TEST(PortableConv2dTest, AnImageOfSeveralBandsMatchesReference) {
  const OpOutputs expected = RunLarge("reference", 1);
  for (const int threads : {1, 3}) {  // one thread of three has no image
    const OpOutputs found = RunLarge("cpu", threads);
    ExpectClose(found.y, expected.y, "y");
    ExpectClose(found.dx, expected.dx, "dx");
    ExpectClose(found.gradients[0], expected.gradients[0], "weight");
    ExpectClose(found.gradients[1], expected.gradients[1], "bias");
  }
}

}  // namespace
}  // namespace lockstep::train::cpu
