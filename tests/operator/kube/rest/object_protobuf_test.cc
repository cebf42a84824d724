#include "operator/kube/rest/object_protobuf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "operator/kube/rest/kubernetes.pb.h"
#include "operator/kube/rest/object_json.h"
#include "tests/support/wire_object.h"

namespace lockstep::kube {
namespace {

using testing::Enveloped;
using ::testing::HasSubstr;

wire::Pod FullPod() {
  wire::Pod pod;
  pod.mutable_metadata()->set_name("a");
  pod.mutable_metadata()->set_namespace_("x");
  pod.mutable_metadata()->set_uid("u");
  pod.mutable_metadata()->set_resourceversion("7");
  pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1'700'000'000);
  pod.mutable_metadata()->set_deletiongraceperiodseconds(0);
  (*pod.mutable_metadata()->mutable_labels())["app"] = "b";
  (*pod.mutable_metadata()->mutable_annotations())["empty"] = "";
  wire::OwnerReference& owner = *pod.mutable_metadata()->add_ownerreferences();
  owner.set_kind("TrainingJob");
  owner.set_controller(true);
  for (const char* name : {"trainer", "sidecar"}) {
    wire::Container& container = *pod.mutable_spec()->add_containers();
    container.set_name(name);
    container.set_image("");
  }
  wire::ContainerStatus& status = *pod.mutable_status()->add_containerstatuses();
  status.set_name("trainer");
  status.set_restartcount(2);
  status.mutable_laststate();
  wire::ContainerStateTerminated& end = *status.mutable_state()->mutable_terminated();
  end.set_exitcode(-1);
  end.set_message("it \xff broke");
  end.mutable_startedat();
  end.mutable_finishedat()->set_seconds(1'700'000'001);
  return pod;
}

Object FullPodAsJson() {
  return Object::parse(R"({
    "metadata": {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "7",
                 "deletionTimestamp": "2023-11-14T22:13:20Z", "deletionGracePeriodSeconds": 0,
                 "labels": {"app": "b"}, "annotations": {"empty": ""},
                 "ownerReferences": [{"kind": "TrainingJob", "controller": true}]},
    "spec": {"containers": [{"name": "trainer"}, {"name": "sidecar"}]},
    "status": {"containerStatuses": [{"name": "trainer", "restartCount": 2, "lastState": {},
      "state": {"terminated": {"exitCode": -1, "message": "it ? broke",
                               "finishedAt": "2023-11-14T22:13:21Z"}}}]}})");
}

TEST(ObjectProtobufTest, AnObjectReadsAsItsJson) {
  const auto pod = ParseProtobuf(Enveloped("Pod", FullPod()), nullptr);
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(*pod, FullPodAsJson());
}

TEST(ObjectProtobufTest, AMaskKeepsWhatItNames) {
  const FieldMask keep = {"metadata.name", "spec.containers.name",
                          "status.containerStatuses.state"};
  const auto pod = ParseProtobuf(Enveloped("Pod", FullPod()), &keep);
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(*pod, Object::parse(R"({
    "metadata": {"name": "a"}, "spec": {"containers": [{"name": "trainer"}, {"name": "sidecar"}]},
    "status": {"containerStatuses": [
      {"state": {"terminated": {"exitCode": -1, "message": "it ? broke",
                                "finishedAt": "2023-11-14T22:13:21Z"}}}]}})"));
}

TEST(ObjectProtobufTest, AListHasItsVersionAndOfEachObjectWhatTheMaskNames) {
  wire::PodList list;
  list.mutable_metadata()->set_resourceversion("9");
  list.mutable_metadata()->set_continue_("more");
  *list.add_items() = FullPod();
  *list.add_items() = FullPod();
  const FieldMask keep = {"metadata.name"};
  const auto read = ParseProtobuf(Enveloped("PodList", list), &keep);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Object::parse(R"({
    "kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "more"},
    "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "a"}}]})"));
}

TEST(ObjectProtobufTest, AnUnknownFieldIsSkippedWhereverItStands) {
  wire::Pod pod = FullPod();
  pod.GetReflection()->MutableUnknownFields(&pod)->AddLengthDelimited(99, "new");
  pod.mutable_status()
      ->GetReflection()
      ->MutableUnknownFields(pod.mutable_status())
      ->AddVarint(98, 7);
  const auto read = ParseProtobuf(Enveloped("Pod", pod), nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, FullPodAsJson());
}

// One client's object must not make everybody's list fail, or fill the memory.
TEST(ObjectProtobufTest, AnObjectWithTooManyValuesAffectsNoOther) {
  wire::PodList list;
  wire::Pod& labelled = *list.add_items();
  labelled.mutable_metadata()->set_name("labelled");
  labelled.mutable_metadata()->set_resourceversion("1");
  for (int i = 0; i <= kMostInMetadata; ++i) {
    (*labelled.mutable_metadata()->mutable_labels())[std::to_string(i)] = "";
  }
  labelled.mutable_spec()->set_nodename("n");
  wire::Pod& contained = *list.add_items();
  contained.mutable_metadata()->set_name("contained");
  for (int i = 0; i <= kMostValues / 2; ++i) {
    contained.mutable_spec()->add_containers()->set_name("c");
  }
  contained.mutable_status()->set_phase("Running");
  *list.add_items() = FullPod();
  const auto read = ParseProtobuf(Enveloped("PodList", list), nullptr);
  ASSERT_TRUE(read.ok()) << read.status();
  const Object& items = read->at("items");
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[0].at("metadata"),
            Object({{"name", "labelled"}, {"resourceVersion", "1"}, {"labels", kTooMany}}));
  EXPECT_EQ(items[0].at("spec"), Object({{"nodeName", "n"}}));
  EXPECT_EQ(items[1].at("spec"), kTooMany);
  EXPECT_EQ(items[1].at("status"), Object({{"phase", "Running"}}));
  EXPECT_EQ(items[2], FullPodAsJson());
}

TEST(ObjectProtobufTest, WhatIsMalformedIsRefused) {
  const std::string whole = Enveloped("Pod", FullPod());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto read = ParseProtobuf(whole.substr(0, size), nullptr);
    // The envelope has no end of its own, and any object may lack any field.
    EXPECT_FALSE(read.ok() && read->contains("status")) << size;
  }
  wire::Pod pod;
  pod.GetReflection()->MutableUnknownFields(&pod)->AddVarint(1, 7);  // the metadata
  EXPECT_TRUE(absl::IsInvalidArgument(ParseProtobuf(Enveloped("Pod", pod), nullptr).status()));
  EXPECT_THAT(ParseProtobuf(Enveloped("Secret", pod), nullptr).status().ToString(),
              HasSubstr("protobuf of \"Secret\" in \"v1\""));
  EXPECT_THAT(ParseProtobuf("{}", nullptr).status().ToString(), HasSubstr("not Kubernetes'"));
}

TEST(ObjectProtobufTest, AskedForOnlyWhereAllThatIsReadIsThere) {
  const FieldMask name = {"metadata.name"};
  EXPECT_TRUE(HasProtobufOf(kPodKind, &name));
  EXPECT_TRUE(HasProtobufOf(kServiceKind, &name));
  EXPECT_FALSE(HasProtobufOf(kPodKind, nullptr));
  EXPECT_FALSE(HasProtobufOf(kSecretKind, &name));
  EXPECT_FALSE(HasProtobufOf({"example.com", "v1", "Pod", "pods"}, &name));
  for (const char* path : {"metadata", "metadata.managedFields", "spec.containers.env",
                           "spec.nodeName.x", "metadata.labels.app", "status.conditions"}) {
    const FieldMask keep = {path};
    EXPECT_FALSE(HasProtobufOf(kPodKind, &keep)) << path;
  }
}

TEST(ObjectProtobufTest, TheBeginningOfAnEventHasTheIdentity) {
  wire::Pod pod = FullPod();
  (*pod.mutable_metadata()->mutable_annotations())["long"] = std::string(100'000, 'x');
  const std::string event = testing::EventOf("MODIFIED", Enveloped("Pod", pod));
  const Object identity = ProtobufIdentity(std::string_view(event).substr(0, 4096));
  EXPECT_EQ(identity, Object({{"type", "MODIFIED"},
                              {"object",
                               {{"metadata",
                                 {{"name", "a"},
                                  {"namespace", "x"},
                                  {"uid", "u"},
                                  {"resourceVersion", "7"},
                                  {"deletionTimestamp", "2023-11-14T22:13:20Z"}}}}}}));
}

}  // namespace
}  // namespace lockstep::kube
