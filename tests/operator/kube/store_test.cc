#include "operator/kube/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

ObjectPtr Owned(const std::string& name, const std::string& owner) {
  Object object = {{"metadata", {{"name", name}, {"namespace", "n"}}}};
  if (!owner.empty()) {
    object["metadata"]["ownerReferences"] = {{{"uid", owner}, {"controller", true}}};
  }
  return std::make_shared<const Object>(std::move(object));
}

std::vector<std::string> NamesOwnedBy(const Store& store, const std::string& owner) {
  std::vector<std::string> names;
  for (const ObjectPtr& object : store.OwnedBy(owner)) names.push_back(Name(*object));
  return names;
}

TEST(StoreTest, FindsObjectsByTheirOwner) {
  Store store;
  store.Put(Owned("b", "x"));
  store.Put(Owned("a", "x"));
  store.Put(Owned("c", "y"));
  store.Put(Owned("d", ""));
  EXPECT_THAT(NamesOwnedBy(store, "x"), testing::ElementsAre("a", "b"));
  EXPECT_THAT(NamesOwnedBy(store, ""), testing::IsEmpty());
}

TEST(StoreTest, TheIndexFollowsChangesOfOwnerAndRemoval) {
  Store store;
  store.Put(Owned("a", "x"));
  EXPECT_NE(store.Put(Owned("a", "y")), nullptr);
  EXPECT_THAT(NamesOwnedBy(store, "x"), testing::IsEmpty());
  EXPECT_THAT(NamesOwnedBy(store, "y"), testing::ElementsAre("a"));
  EXPECT_NE(store.Remove({"n", "a"}), nullptr);
  EXPECT_EQ(store.Remove({"n", "a"}), nullptr);
  EXPECT_THAT(NamesOwnedBy(store, "y"), testing::IsEmpty());
  EXPECT_EQ(store.size(), 0U);
}

TEST(StoreTest, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(IsOlderVersion("9", "10"));
  EXPECT_FALSE(IsOlderVersion("10", "9"));
  EXPECT_FALSE(IsOlderVersion("10", "10"));
  EXPECT_TRUE(IsOlderVersion("", "1"));
}

}  // namespace
}  // namespace lockstep::kube
