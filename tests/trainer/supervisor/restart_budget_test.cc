#include "trainer/supervisor/restart_budget.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

TEST(RestartBudgetTest, TheFirstRestartIsImmediateLaterOnesBackOff) {
  RestartBudget budget({.restarts = 5, .first_delay = 1s, .longest_delay = 3s});
  EXPECT_EQ(budget.Charge(), Duration(0s));
  EXPECT_EQ(budget.Charge(), Duration(1s));
  EXPECT_EQ(budget.Charge(), Duration(2s));
  EXPECT_EQ(budget.Charge(), Duration(3s));
  EXPECT_EQ(budget.Charge(), Duration(3s));
  EXPECT_EQ(budget.Charge(), std::nullopt);
}

TEST(RestartBudgetTest, OnlyAStepBeyondAllEarlierOnesIsProgress) {
  RestartBudget budget({.restarts = 2, .first_delay = 1s, .longest_delay = 1s});
  budget.Progress(100);
  budget.Charge();
  budget.Charge();
  budget.Progress(100);  // back from the checkpoint, at the same place
  EXPECT_EQ(budget.Charge(), std::nullopt);
  budget.Progress(101);
  EXPECT_EQ(budget.Charge(), Duration(0s));
}

}  // namespace
}  // namespace lockstep::train
