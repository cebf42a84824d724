#include "tests/operator/local/client_conformance.h"

#include <gmock/gmock.h>

namespace lockstep::local {
namespace {

using kube::Object;
using kube::WatchEvent;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Type = kube::WatchEvent::Type;

TEST_P(ClientConformanceTest, CreateSetsIdentityAndVersion) {
  const Object created = MustCreate(kWidgetKind, Widget("a"));
  EXPECT_FALSE(kube::Uid(created).empty());
  EXPECT_FALSE(kube::ResourceVersion(created).empty());
  EXPECT_EQ(created["metadata"]["generation"], 1);
  EXPECT_TRUE(created["metadata"].contains("creationTimestamp"));
}

TEST_P(ClientConformanceTest, CreateOfATakenNameIsAlreadyExists) {
  MustCreate(kConfigKind, Config("a"));
  const auto again = client_->Create(kConfigKind, Config("a"));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status())) << again.status();
}

TEST_P(ClientConformanceTest, CreateRefusesABadName) {
  const auto made = client_->Create(kConfigKind, Config("Not_A_Name"));
  EXPECT_TRUE(absl::IsInvalidArgument(made.status())) << made.status();
}

TEST_P(ClientConformanceTest, GenerateNameMakesDistinctNames) {
  Object object = Config("");
  object["metadata"].erase("name");
  object["metadata"]["generateName"] = "event-";
  const Object first = MustCreate(kConfigKind, object);
  const Object second = MustCreate(kConfigKind, object);
  EXPECT_TRUE(kube::Name(first).starts_with("event-"));
  EXPECT_NE(kube::Name(first), kube::Name(second));
}

TEST_P(ClientConformanceTest, GetAndDeleteOfNothingAreNotFound) {
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kConfigKind, KeyIn("no")).status()));
  EXPECT_TRUE(absl::IsNotFound(client_->Delete(kConfigKind, KeyIn("no"), {})));
}

TEST_P(ClientConformanceTest, CreateDropsStatusAndUpdateLeavesItAlone) {
  Object job = Widget("a");
  job["status"]["state"] = "Made up";
  Object created = MustCreate(kWidgetKind, job);
  EXPECT_FALSE(created.contains("status"));
  created["status"]["state"] = "Made up";
  const Object updated = Written(kWidgetKind, client_->Update(kWidgetKind, created));
  EXPECT_FALSE(updated.contains("status"));
}

TEST_P(ClientConformanceTest, UpdateStatusWritesStatusAlone) {
  Object job = MustCreate(kWidgetKind, Widget("a"));
  job["status"]["state"] = "Running";
  job["spec"]["suspend"] = true;
  const Object updated = Written(kWidgetKind, client_->UpdateStatus(kWidgetKind, job));
  EXPECT_EQ(updated["status"]["state"], "Running");
  EXPECT_EQ(updated["spec"]["suspend"], false);
  EXPECT_EQ(updated["metadata"]["generation"], 1);
}

TEST_P(ClientConformanceTest, GenerationCountsChangesOfTheSpecOnly) {
  Object job = MustCreate(kWidgetKind, Widget("a"));
  job["metadata"]["labels"]["team"] = "a";
  Object labelled = Written(kWidgetKind, client_->Update(kWidgetKind, job));
  EXPECT_EQ(labelled["metadata"]["generation"], 1);
  labelled["spec"]["suspend"] = true;
  const Object suspended = Written(kWidgetKind, client_->Update(kWidgetKind, labelled));
  EXPECT_EQ(suspended["metadata"]["generation"], 2);
}

TEST_P(ClientConformanceTest, AWriteOfAnOldVersionIsAborted) {
  const Object first = MustCreate(kConfigKind, Config("a"));
  Object second = first;
  second["data"]["value"] = "2";
  ASSERT_TRUE(client_->Update(kConfigKind, second).ok());
  Object late = first;
  late["data"]["value"] = "3";
  EXPECT_TRUE(absl::IsAborted(client_->Update(kConfigKind, late).status()));
}

TEST_P(ClientConformanceTest, AWriteThatChangesNothingKeepsTheVersion) {
  const Object created = MustCreate(kConfigKind, Config("a"));
  const auto updated = client_->Update(kConfigKind, created);
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ(kube::ResourceVersion(*updated), kube::ResourceVersion(created));
}

TEST_P(ClientConformanceTest, DeleteChecksTheUid) {
  const Object created = MustCreate(kConfigKind, Config("a"));
  EXPECT_TRUE(absl::IsAborted(client_->Delete(kConfigKind, KeyIn("a"), {.uid = "another-uid"})));
  EXPECT_TRUE(client_->Delete(kConfigKind, KeyIn("a"), {.uid = kube::Uid(created)}).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kConfigKind, KeyIn("a")).status()));
}

TEST_P(ClientConformanceTest, DeleteChecksTheVersion) {
  const Object created = MustCreate(kConfigKind, Config("a"));
  Object changed = created;
  changed["data"]["value"] = "2";
  changed = *client_->Update(kConfigKind, changed);
  const auto expecting = [](const Object& object) {
    return kube::Preconditions{.uid = kube::Uid(object),
                               .resource_version = kube::ResourceVersion(object)};
  };
  EXPECT_TRUE(absl::IsAborted(client_->Delete(kConfigKind, KeyIn("a"), expecting(created))));
  EXPECT_TRUE(client_->Delete(kConfigKind, KeyIn("a"), expecting(changed)).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kConfigKind, KeyIn("a")).status()));
}

TEST_P(ClientConformanceTest, AFinalizerHoldsADeletedObject) {
  Object object = Config("a");
  object["metadata"]["finalizers"] = {"example.com/hold"};
  MustCreate(kConfigKind, object);
  ASSERT_TRUE(client_->Delete(kConfigKind, KeyIn("a"), {}).ok());
  auto held = client_->Get(kConfigKind, KeyIn("a"));
  ASSERT_TRUE(held.ok());
  EXPECT_TRUE(kube::IsBeingDeleted(*held));
  (*held)["metadata"]["finalizers"] = Object::array();
  ASSERT_TRUE(client_->Update(kConfigKind, *held).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kConfigKind, KeyIn("a")).status()));
}

TEST_P(ClientConformanceTest, ListSelectsByLabels) {
  MustCreate(kConfigKind, Labelled(Config("a"), "role", "chief"));
  MustCreate(kConfigKind, Labelled(Config("b"), "role", "worker"));
  MustCreate(kConfigKind, Config("c"));
  EXPECT_THAT(Names(kConfigKind, "role=worker"), ElementsAre("b"));
  EXPECT_THAT(Names(kConfigKind, "role in (chief,worker)"), ElementsAre("a", "b"));
  EXPECT_THAT(Names(kConfigKind, "role!=worker"), ElementsAre("a", "c"));
  EXPECT_THAT(Names(kConfigKind, "!role"), ElementsAre("c"));
  EXPECT_THAT(Names(kConfigKind, "role,role notin (chief)"), ElementsAre("b"));
}

TEST_P(ClientConformanceTest, PagesShowOneInstant) {
  for (const char* name : {"a", "b", "c"})
    MustCreate(kConfigKind, Labelled(Config(name), "x", "y"));
  kube::ListOptions options = ListOf(namespace_, "x=y");
  options.limit = 2;
  const auto first = client_->List(kConfigKind, options);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->items.size(), 2U);
  MustCreate(kConfigKind, Labelled(Config("d"), "x", "y"));
  options.continue_token = first->continue_token;
  const auto second = client_->List(kConfigKind, options);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->items.size(), 1U);
  EXPECT_EQ(kube::Name(second->items[0]), "c");
  EXPECT_EQ(second->continue_token, "");
  EXPECT_EQ(second->resource_version, first->resource_version);
}

TEST_P(ClientConformanceTest, WatchGoesOnFromAList) {
  MustCreate(kConfigKind, Config("before"));
  const auto page = client_->List(kConfigKind, ListOf(namespace_));
  ASSERT_TRUE(page.ok());
  Object object = MustCreate(kConfigKind, Config("a"));
  WatchRecorder watch(*client_, kConfigKind, WatchOf(namespace_, page->resource_version));
  object["data"]["value"] = "2";
  ASSERT_TRUE(client_->Update(kConfigKind, object).ok());
  ASSERT_TRUE(client_->Delete(kConfigKind, KeyIn("a"), {}).ok());
  const auto events = watch.Await(3);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].type, Type::kAdded);
  EXPECT_EQ(events[1].type, Type::kModified);
  EXPECT_EQ(events[1].object["data"]["value"], "2");
  EXPECT_EQ(events[2].type, Type::kDeleted);
  EXPECT_NE(kube::ResourceVersion(events[2].object), kube::ResourceVersion(events[1].object));
}

TEST_P(ClientConformanceTest, AWatchWithASelectorSeesObjectsComeAndGo) {
  const auto page = client_->List(kConfigKind, ListOf(namespace_));
  ASSERT_TRUE(page.ok());
  WatchRecorder watch(*client_, kConfigKind,
                      WatchOf(namespace_, page->resource_version, "role=worker"));
  Object object = MustCreate(kConfigKind, Config("a"));
  object["metadata"]["labels"]["role"] = "worker";
  object = Written(kConfigKind, client_->Update(kConfigKind, object));
  object["metadata"]["labels"]["role"] = "chief";
  ASSERT_TRUE(client_->Update(kConfigKind, object).ok());
  const auto events = watch.Await(2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].type, Type::kAdded);
  EXPECT_EQ(events[1].type, Type::kDeleted);
}

TEST_P(ClientConformanceTest, AStoppedWatchEndsWell) {
  WatchRecorder watch(*client_, kConfigKind, WatchOf(namespace_));
  MustCreate(kConfigKind, Config("a"));
  ASSERT_EQ(watch.Await(1).size(), 1U);
  watch.Stop();
  EXPECT_TRUE(watch.AwaitEnd().ok());
}

TEST_P(ClientConformanceTest, ADeletedOwnersObjectsAreCollected) {
  if (!GetParam().collects_garbage) GTEST_SKIP() << "no collector runs beside this server";
  const Object job = MustCreate(kWidgetKind, Widget("a"));
  const Object other = MustCreate(kWidgetKind, Widget("b"));
  MustCreate(kConfigKind, Owned(Config("child"), job));
  MustCreate(kConfigKind, Owned(Config("other"), other));
  WatchRecorder watch(*client_, kConfigKind, WatchOf(namespace_));
  ASSERT_EQ(watch.Await(2).size(), 2U);
  ASSERT_TRUE(client_->Delete(kWidgetKind, KeyIn("a"), {}).ok());
  const auto events = watch.Await(3);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].type, Type::kDeleted);
  EXPECT_EQ(kube::Name(events[2].object), "child");
}

TEST_P(ClientConformanceTest, AnObjectOfADeadOwnerIsCollected) {
  if (!GetParam().collects_garbage) GTEST_SKIP() << "no collector runs beside this server";
  const Object job = MustCreate(kWidgetKind, Widget("a"));
  ASSERT_TRUE(client_->Delete(kWidgetKind, KeyIn("a"), {}).ok());
  const auto page = client_->List(kConfigKind, ListOf(namespace_));
  ASSERT_TRUE(page.ok());
  WatchRecorder watch(*client_, kConfigKind, WatchOf(namespace_, page->resource_version));
  // MustCreate() would read the object again, which may have been deleted by then.
  ASSERT_TRUE(client_->Create(kConfigKind, Owned(Config("late"), job)).ok());
  const auto events = watch.Await(2);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].type, Type::kDeleted);
}

TEST_P(ClientConformanceTest, APodOfNoNodeIsDeletedAtOnce) {
  MustCreate(kube::kPodKind, Pod("a"));
  ASSERT_TRUE(client_->Delete(kube::kPodKind, KeyIn("a"), {}).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kube::kPodKind, KeyIn("a")).status()));
}

TEST_P(ClientConformanceTest, AForcedDeletionWaitsForNoKubelet) {
  Object pod = Pod("a");
  pod["spec"]["nodeName"] = "gone";
  pod = MustCreate(kube::kPodKind, pod);
  ASSERT_TRUE(client_->Delete(kube::kPodKind, KeyIn("a"), {.uid = kube::Uid(pod)}).ok());
  const auto dying = client_->Get(kube::kPodKind, KeyIn("a"));
  ASSERT_TRUE(dying.ok()) << dying.status();
  EXPECT_TRUE(kube::IsBeingDeleted(*dying));
  EXPECT_TRUE(
      absl::IsAborted(client_->ForceDelete(kube::kPodKind, KeyIn("a"), {.uid = "another-uid"})));
  ASSERT_TRUE(client_->ForceDelete(kube::kPodKind, KeyIn("a"), {.uid = kube::Uid(pod)}).ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Get(kube::kPodKind, KeyIn("a")).status()));
}

TEST_P(ClientConformanceTest, ANewPodIsPendingAndItsSpecIsFixed) {
  Object pod = MustCreate(kube::kPodKind, Pod("a"));
  EXPECT_EQ(pod["status"]["phase"], "Pending");
  pod["spec"]["containers"][0]["command"] = {"true"};
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Update(kube::kPodKind, pod).status()));
}

TEST_P(ClientConformanceTest, AMalformedSelectorIsRefused) {
  const auto page = client_->List(kConfigKind, ListOf("", "a in b"));
  EXPECT_TRUE(absl::IsFailedPrecondition(page.status())) << page.status();
}

}  // namespace
}  // namespace lockstep::local
