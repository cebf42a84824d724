#include "operator/local/list_snapshots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace lockstep::local {
namespace {

ListSnapshots::Snapshot Of(int objects, std::uint64_t version = 7) {
  ListSnapshots::Snapshot snapshot{version, {}};
  for (int i = 0; i < objects; ++i) {
    snapshot.rest.push_back(std::make_shared<const kube::Object>(i));
  }
  return snapshot;
}

TEST(ListSnapshotsTest, PagesHaveTheListsVersionAndTheLastHasNoToken) {
  ListSnapshots lists;
  const kube::Page first = lists.TakePage(Of(3), 2);
  EXPECT_THAT(first.items, ::testing::ElementsAre(0, 1));
  EXPECT_EQ(first.resource_version, "7");
  const auto second = lists.NextPage(first.continue_token, 2);
  ASSERT_TRUE(second.has_value());
  EXPECT_THAT(second->items, ::testing::ElementsAre(2));
  EXPECT_EQ(second->resource_version, "7");
  EXPECT_EQ(second->continue_token, "");
}

TEST(ListSnapshotsTest, WithoutALimitAPageHoldsAll) {
  EXPECT_EQ(ListSnapshots().TakePage(Of(1000), 0).items.size(), 1000U);
}

TEST(ListSnapshotsTest, ATokenCanBeUsedOnce) {
  ListSnapshots lists;
  const kube::Page first = lists.TakePage(Of(3), 1);
  const auto second = lists.NextPage(first.continue_token, 1);
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(lists.NextPage(first.continue_token, 1).has_value());
  EXPECT_TRUE(lists.NextPage(second->continue_token, 1).has_value());
}

TEST(ListSnapshotsTest, OfManyUnfinishedListsTheOldestExpires) {
  ListSnapshots lists;
  std::vector<std::string> tokens;
  for (int i = 0; i < 65; ++i) tokens.push_back(lists.TakePage(Of(2), 1).continue_token);
  EXPECT_FALSE(lists.NextPage(tokens[0], 1).has_value());
  EXPECT_TRUE(lists.NextPage(tokens[1], 1).has_value());
  EXPECT_TRUE(lists.NextPage(tokens[64], 1).has_value());
}

}  // namespace
}  // namespace lockstep::local
