#include "operator/kube/cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using Names = Store<int>;

Names::Ptr Owned(const std::string& name, const std::string& owner, int value = 0) {
  Identity identity;
  identity.key = {"n", name};
  identity.owner_kind = "Job.batch";
  identity.owner_uid = owner;
  return std::make_shared<const Cached<int>>(std::move(identity), value);
}

std::vector<std::string> NamesOwnedBy(const Names& store, const std::string& owner) {
  std::vector<std::string> names;
  for (const Names::Ptr& object : store.OwnedBy({"n", "Job.batch", owner}))
    names.push_back(object->key.name);
  return names;
}

TEST(StoreTest, FindsObjectsByTheirOwner) {
  Names store;
  store.Put(Owned("b", "x"));
  store.Put(Owned("a", "x"));
  store.Put(Owned("c", "y"));
  store.Put(Owned("d", ""));
  EXPECT_THAT(NamesOwnedBy(store, "x"), ::testing::ElementsAre("a", "b"));
  EXPECT_THAT(NamesOwnedBy(store, ""), ::testing::IsEmpty());
}

TEST(StoreTest, AUidAloneMakesNobodyAnOwner) {
  Names store;
  const auto put = [&store](const std::string& space, const char* api, const char* kind) {
    const Object object = {
        {"metadata",
         {{"name", space + kind},
          {"namespace", space},
          {"ownerReferences",
           {{{"uid", "x"}, {"apiVersion", api}, {"kind", kind}, {"controller", true}}}}}}};
    store.Put(std::make_shared<const Cached<int>>(IdentityOf(object), 0));
    return OwnerOf(object);
  };
  const Owner owner{"n", OwnerKind({"batch", "v1", "Job", "jobs"}), "x"};
  EXPECT_EQ(put("n", "batch/v1", "Job"), owner);
  EXPECT_EQ(put("n", "batch/v1", "CronJob").kind, "CronJob.batch");
  EXPECT_EQ(put("n", "v1", "Node").kind, "Node.");
  EXPECT_EQ(put("m", "batch/v1", "Job").namespace_name, "m");
  EXPECT_THAT(NamesOwnedBy(store, "x"), ::testing::ElementsAre("nJob"));
}

TEST(StoreTest, AnOwnerOfUnboundedTextIsNone) {
  for (const char* member : {"apiVersion", "kind", "name", "uid"}) {
    Object reference = {{"apiVersion", "batch/v1"},
                        {"kind", "Job"},
                        {"name", "j"},
                        {"uid", "x"},
                        {"controller", true}};
    reference[member] = std::string(1'000'000, 'x') + "/v1";
    const Object object = {
        {"metadata", {{"name", "a"}, {"namespace", "n"}, {"ownerReferences", {reference}}}}};
    const Identity identity = IdentityOf(object);
    EXPECT_EQ(identity.key, (Key{"n", "a"})) << member;
    EXPECT_EQ(identity.owner_kind + identity.owner_name + identity.owner_uid, "") << member;
    const Owner owner = OwnerOf(object);
    EXPECT_EQ(owner.kind + owner.uid, "") << member;
    Names store;
    store.Put(std::make_shared<const Cached<int>>(identity, 0));
    EXPECT_EQ(store.size(), 1U);
    EXPECT_TRUE(store
                    .AllOwnedBy({"n", OwnerKind({"batch", "v1", "Job", "jobs"}),
                                 reference.at("uid").get<std::string>()})
                    .empty())
        << member;
  }
}

TEST(StoreTest, TheLongestOwnerThatThereCanBeIsOne) {
  const std::string name(253, 'a'), group(253, 'b'), kind(63, 'c');
  const Identity identity = IdentityOf({{"metadata",
                                         {{"ownerReferences",
                                           {{{"apiVersion", group + "/v1"},
                                             {"kind", kind},
                                             {"name", name},
                                             {"uid", "x"},
                                             {"controller", true}}}}}}});
  EXPECT_EQ(identity.owner_kind, kind + "." + group);
  EXPECT_EQ(identity.owner_name, name);
}

TEST(StoreTest, TheIndexFollowsChangesOfOwnerAndRemoval) {
  Names store;
  store.Put(Owned("a", "x"));
  EXPECT_EQ(store.Put(Owned("a", "x", 2))->value, 0);
  EXPECT_THAT(NamesOwnedBy(store, "x"), ::testing::ElementsAre("a"));
  EXPECT_EQ(store.OwnedBy({"n", "Job.batch", "x"}).front()->value, 2);
  EXPECT_EQ(store.Put(Owned("a", "y", 3))->value, 2);
  EXPECT_THAT(NamesOwnedBy(store, "x"), ::testing::IsEmpty());
  EXPECT_THAT(NamesOwnedBy(store, "y"), ::testing::ElementsAre("a"));
  EXPECT_EQ(store.Get({"n", "a"})->value, 3);
  EXPECT_EQ(store.Remove({"n", "a"})->value, 3);
  EXPECT_EQ(store.Remove({"n", "a"}), nullptr);
  EXPECT_THAT(NamesOwnedBy(store, "y"), ::testing::IsEmpty());
  EXPECT_EQ(store.size(), 0U);
}

TEST(StoreTest, EachNamespaceHasItsOwnVersion) {
  Names store;
  EXPECT_EQ(store.resource_version("a"), "");
  store.SetResourceVersion("a", "7");
  EXPECT_EQ(store.resource_version("a"), "7");
  EXPECT_EQ(store.resource_version("b"), "") << "its watch has seen nothing";
  Names of_all;
  of_all.SetResourceVersion("", "9");
  EXPECT_EQ(of_all.resource_version("b"), "9");
}

TEST(StoreTest, ListsOneNamespaceOrAll) {
  Names store;
  for (const char* space : {"a", "ab", "b"}) {
    for (const char* name : {"x", "y"}) {
      Identity identity;
      identity.key = {space, name};
      store.Put(std::make_shared<const Cached<int>>(std::move(identity), 0));
    }
  }
  const auto found = store.List("a");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.front()->key, (Key{"a", "x"}));
  EXPECT_EQ(found.back()->key, (Key{"a", "y"}));
  EXPECT_TRUE(store.List("aa").empty());
  EXPECT_EQ(store.List().size(), 6U);
}

TEST(StoreTest, AnIdentityIsReadOfAnyObject) {
  const Identity pod = IdentityOf({{"metadata",
                                    {{"name", "a"},
                                     {"namespace", "n"},
                                     {"uid", "u"},
                                     {"resourceVersion", "7"},
                                     {"deletionTimestamp", "2026-01-01T00:00:00Z"},
                                     {"ownerReferences",
                                      {{{"uid", "x"}, {"name", "other"}},
                                       {{"uid", "y"},
                                        {"name", "job"},
                                        {"apiVersion", "batch/v1"},
                                        {"kind", "Job"},
                                        {"controller", true}}}}}}});
  EXPECT_EQ(pod.key, (Key{"n", "a"}));
  EXPECT_EQ(pod.uid, "u");
  EXPECT_EQ(pod.resource_version, "7");
  EXPECT_EQ(pod.owner_uid, "y");
  EXPECT_EQ(pod.owner_kind, "Job.batch");
  EXPECT_EQ(pod.owner_name, "job");
  EXPECT_TRUE(pod.being_deleted);
  for (const Object& strange : {Object(), Object("text"), Object{{"metadata", 1}}}) {
    EXPECT_EQ(IdentityOf(strange).key, Key());
    EXPECT_FALSE(IdentityOf(strange).being_deleted);
  }
}

TEST(StoreTest, VersionsAreComparedAsNumbers) {
  EXPECT_TRUE(IsOlderVersion("9", "10"));
  EXPECT_FALSE(IsOlderVersion("10", "9"));
  EXPECT_FALSE(IsOlderVersion("10", "10"));
  EXPECT_TRUE(IsOlderVersion("", "1"));
}

}  // namespace
}  // namespace lockstep::kube
