#include "trainer/check/op_cases.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <latch>
#include <set>
#include <thread>
#include <variant>

namespace lockstep::train {
namespace {

TEST(SmallCasesTest, HaveEveryOp) {
  std::set<std::size_t> ops;
  for (const OpCase& op_case : SmallCases()) ops.insert(op_case.spec({.shape = op_case.x}).index());
  EXPECT_EQ(ops.size(), std::variant_size_v<OpSpec>);
}

// As a check does, whose threads ask the oracle of one case in several types at a time.
TEST(OpCaseTest, ThreadsThatAskForASpecGetTheirOwn) {
  constexpr int kTimes = 100'000;
  const OpCase op_case = CaseOf<DenseSpec>("Dense", {6, 37}, {.units = 10});
  std::latch start(2);
  const auto wrong_after_asking_for = [&](const Shape& shape) {
    start.arrive_and_wait();
    int wrong = 0;
    for (int i = 0; i < kTimes; ++i) {
      const OpSpec spec = op_case.spec({.shape = shape});
      wrong += std::get<DenseSpec>(spec).x.shape == shape ? 0 : 1;
    }
    return wrong;
  };
  int wrong = 0;
  std::thread other([&] { wrong = wrong_after_asking_for({7, 5, 3, 2}); });
  EXPECT_EQ(wrong_after_asking_for({2, 3}), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lockstep::train
