#include "operator/controller/rules/parts/plan.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <variant>

namespace lockstep::controller {
namespace {

TEST(PlanTest, EachActionHasTheStageOfItsKind) {
  struct Case {
    Action action;
    ActionKind kind;
    int stage;
  };
  const Case cases[] = {
      {CreateService{}, ActionKind::kCreateForPods, 1},
      {CreateTokenSecret{}, ActionKind::kCreateForPods, 1},
      {CreateNetworkPolicy{}, ActionKind::kCreateForPods, 1},
      {CreatePod{}, ActionKind::kCreate, 2},
      {CreatePodGroup{}, ActionKind::kCreate, 2},
      {CreateWorkload{}, ActionKind::kCreate, 2},
      {DeletePod{}, ActionKind::kDelete, 0},
      {DeleteJob{}, ActionKind::kDelete, 0},
      {DeletePodGroup{}, ActionKind::kDelete, 0},
      {DeleteWorkload{}, ActionKind::kDelete, 0},
      {UpdatePodGroup{}, ActionKind::kUpdate, 0},
      {SetSuspend{}, ActionKind::kUpdate, 0},
      {ReleaseWorkload{}, ActionKind::kUpdate, 0},
      {SetWorkloadCondition{}, ActionKind::kUpdate, 0},
      {SetReclaimableWorkers{}, ActionKind::kUpdate, 0},
  };
  std::set<std::size_t> seen;
  for (const Case& one : cases) {
    const std::size_t index = one.action.index();
    EXPECT_EQ(KindOf(one.action), one.kind) << "alternative " << index;
    EXPECT_EQ(StageOf(one.action), one.stage) << "alternative " << index;
    EXPECT_EQ(IsCreate(one.action), one.stage > 0) << "alternative " << index;
    seen.insert(index);
  }
  EXPECT_EQ(seen.size(), std::variant_size_v<Action>) << "an action is not in the table";
}

}  // namespace
}  // namespace lockstep::controller
