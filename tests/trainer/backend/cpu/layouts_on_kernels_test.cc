// The kernels of our own in every order that images come in, against `reference`. Which orders a
// model meets depends on the processor; here all are met on each.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "tests/trainer/backend/expect_close.h"
#include "trainer/backend/cpu/memory_desc.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

std::vector<OpCase> ImageCases() {
  std::vector<OpCase> cases;
  for (OpCase& op_case : OtherCases()) {
    if (op_case.x.rank() == 4) cases.push_back(std::move(op_case));
  }
  for (OpCase& op_case : ConvCases()) cases.push_back(std::move(op_case));
  return cases;
}

class LayoutsOnKernelsTest : public testing::TestWithParam<std::tuple<OpCase, Tag>> {};

TEST_P(LayoutsOnKernelsTest, MatchReference) {
  const auto& [op_case, order] = GetParam();
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  const auto oracle = MakeBackend({.name = "reference"});
  const auto op = op_case.Make(
      *backend, TensorOf(op_case.x, {op_case.x.dims(), memory::data_type::f32, order}));
  const auto expected_op = op_case.Make(*oracle, {.shape = op_case.x});
  StepSettings step = op_case.step;
  if (step.valid == 0) step.valid = op_case.x[0];
  OpInputs inputs = RandomInputs(*expected_op, 3);
  const std::int64_t row = expected_op->output().shape.elements() / op_case.x[0];
  std::fill(inputs.dy.begin() + step.valid * row, inputs.dy.end(), 0.0f);
  OpOutputs found = RunOp(*backend, *op, inputs, step);
  OpOutputs expected = RunOp(*oracle, *expected_op, inputs, step);
  found.y.resize(static_cast<std::size_t>(step.valid * row));  // padding rows mean nothing
  expected.y.resize(found.y.size());
  ExpectClose(found.y, expected.y, "y");
  ExpectClose(found.dx, expected.dx, "dx");
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    ExpectClose(found.gradients[i], expected.gradients[i], "gradient");
  }
  for (std::size_t i = 0; i < expected.states.size(); ++i) {
    ExpectClose(found.states[i], expected.states[i], "state");
  }
}

std::string NameOfOrder(Tag order) {
  return order == Tag::nhwc ? "ChannelsLast" : order == Tag::nChw8c ? "BlocksOf8" : "BlocksOf16";
}

INSTANTIATE_TEST_SUITE_P(Images, LayoutsOnKernelsTest,
                         testing::Combine(testing::ValuesIn(ImageCases()),
                                          testing::Values(Tag::nhwc, Tag::nChw8c, Tag::nChw16c)),
                         [](const auto& found) {
                           return std::get<0>(found.param).name +
                                  NameOfOrder(std::get<1>(found.param));
                         });

}  // namespace
}  // namespace lockstep::train::cpu
