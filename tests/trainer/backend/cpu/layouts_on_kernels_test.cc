// The kernels of our own in every order that images come in, against `reference`. Which orders a
// model meets depends on the processor; here all are met on each.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "tests/trainer/backend/expect_oracle.h"
#include "trainer/backend/cpu/device/memory_desc.h"
#include "trainer/check/op_cases.h"
#include "trainer/check/oracle_run.h"
#include "trainer/check/run_op.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

std::vector<OpCase> ImageCases() {
  std::vector<OpCase> cases = SmallCases();
  std::erase_if(cases, [](const OpCase& op_case) { return op_case.x.rank() != 4; });
  return cases;
}

class LayoutsOnKernelsTest : public ::testing::TestWithParam<std::tuple<OpCase, Tag>> {};

TEST_P(LayoutsOnKernelsTest, MatchReference) {
  const auto& [op_case, order] = GetParam();
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  const auto op = op_case.Make(
      *backend, TensorOf(op_case.x, {op_case.x.dims(), memory::data_type::f32, order}));
  const OracleRun run = AskOracle(op_case, InputNumbers::kFloat32);
  ExpectTraining(RunOp(*backend, *op, run.inputs, run.step), run);
}

std::string NameOfOrder(Tag order) {
  return order == Tag::nhwc ? "ChannelsLast" : order == Tag::nChw8c ? "BlocksOf8" : "BlocksOf16";
}

INSTANTIATE_TEST_SUITE_P(Images, LayoutsOnKernelsTest,
                         ::testing::Combine(::testing::ValuesIn(ImageCases()),
                                            ::testing::Values(Tag::nhwc, Tag::nChw8c,
                                                              Tag::nChw16c)),
                         [](const auto& found) {
                           return std::get<0>(found.param).name +
                                  NameOfOrder(std::get<1>(found.param));
                         });

}  // namespace
}  // namespace lockstep::train::cpu
