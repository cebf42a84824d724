#include "operator/controller/state/node_health.h"

#include <gtest/gtest.h>

namespace lockstep::controller {
namespace {

const kube::Cached<bool> kIsReady{{}, true}, kIsNotReady{{}, false};

TEST(NodeHealthTest, AnOutageIsWideIfMostNodesOrAllAreNotReady) {
  struct Case {
    int ready, not_ready;
    bool is_wide;
  };
  const Case cases[] = {
      {0, 0, false},   {1, 0, false},     {0, 1, true},     {1, 1, false}, {0, 2, true},
      {2, 1, false},   {1, 2, false},     {0, 3, true},     {1, 3, true},  {2, 3, true},
      {3, 3, false},   {46, 54, false},   {45, 55, true},   {4, 0, false}, {9, 11, true},
      {90, 10, false}, {460, 540, false}, {450, 550, true},
  };
  for (const Case& c : cases) {
    NodeHealth health;
    for (int i = 0; i < c.ready; ++i) health.UpdateOutage(nullptr, &kIsReady);
    for (int i = 0; i < c.not_ready; ++i) health.UpdateOutage(nullptr, &kIsNotReady);
    EXPECT_EQ(health.IsWideOutage(), c.is_wide) << c.ready << " " << c.not_ready;
  }
}

TEST(NodeHealthTest, SaysWhenAWideOutageBeginsAndEnds) {
  NodeHealth health;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(health.UpdateOutage(nullptr, &kIsReady));
  EXPECT_FALSE(health.UpdateOutage(&kIsReady, &kIsNotReady));
  EXPECT_FALSE(health.UpdateOutage(&kIsReady, &kIsNotReady));
  EXPECT_TRUE(health.UpdateOutage(&kIsReady, &kIsNotReady));
  EXPECT_FALSE(health.UpdateOutage(&kIsReady, &kIsNotReady));
  EXPECT_FALSE(health.UpdateOutage(&kIsNotReady, &kIsNotReady)) << "its heartbeat";
  EXPECT_TRUE(health.IsWideOutage());
  EXPECT_FALSE(health.UpdateOutage(&kIsNotReady, &kIsReady));
  EXPECT_TRUE(health.UpdateOutage(&kIsNotReady, nullptr)) << "2 of 3";
  EXPECT_FALSE(health.IsWideOutage());
}

}  // namespace
}  // namespace lockstep::controller
