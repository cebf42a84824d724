#include "operator/controller/rules/parts/completions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/controller/rules/parts/status.h"
#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using ::testing::ElementsAre;
using testing::Exited;
using testing::Job;
using testing::Seen;

TEST(CompletionsTest, FinishedWorkersAreRememberedInOrder) {
  Seen seen(Job("j").Workers(3));
  seen.With([](Observed& observed) { observed.job.status.completed_indexes = {1}; });
  seen.Worker(2, Exited(0)).Worker(0, Exited(0)).Worker(1, Exited(0));
  EXPECT_THAT(BaseStatus(seen.Build()).completed_indexes, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace lockstep::controller
