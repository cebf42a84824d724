#include "operator/kube/object_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;

TEST(ObjectJsonTest, ReadsWhatTheLibraryReads) {
  const std::string text =
      R"({"a":[1,-2,3.5,"x\n",true,false,null,[],{}],"b":{"c":{"d":[{"e":1},{"e":2}]}},"":""})";
  const auto object = ParseObject(text);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Object::parse(text));
}

TEST(ObjectJsonTest, ReadsScalars) {
  EXPECT_EQ(*ParseObject("7"), Object(7));
  EXPECT_EQ(*ParseObject("null"), Object());
}

TEST(ObjectJsonTest, LeavesManagedFieldsOfMetadataOut) {
  const auto object =
      ParseObject(R"({"metadata":{"managedFields":[{"a":[1,{"b":2}]},"x"],"name":"n"},"items":[)"
                  R"({"metadata":{"name":"i","managedFields":7}}],"spec":{"managedFields":[1]}})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Object::parse(R"({"metadata":{"name":"n"},"items":[{"metadata":{"name":"i"}}],
                                       "spec":{"managedFields":[1]}})"));
}

TEST(ObjectJsonTest, LeavesManagedFieldsOutAsAnApiServerSpellsThem) {
  const std::string fields =
      R"("managedFields":[{"manager":"m","fieldsV1":{"f:a":{"k:{\"n\":\"]\\\"}":[[],"\\"]}}}])";
  const auto list =
      ParseObject(R"({"items":[{"metadata":{)" + fields + R"(,"name":"a"}},{"metadata":{)" +
                  fields + R"(}}],"note":"\"managedFields\":[{\"manager\":\""})");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(*list, Object::parse(R"({"items":[{"metadata":{"name":"a"}},{"metadata":{}}],
                                     "note":"\"managedFields\":[{\"manager\":\""})"));
  for (const char* broken : {R"({"metadata":{"managedFields":[{"manager":"x)",
                             R"({"metadata":{"managedFields":[{"manager":"x\)",
                             R"({"metadata":{"managedFields":[{"manager":"x"}})"}) {
    EXPECT_FALSE(ParseObject(broken).ok()) << broken;
  }
}

TEST(ObjectJsonTest, KeepsAMapOfTheUsersCalledSo) {
  const std::string text = R"({"metadata":{"name":"n"},"data":{"managedFields":"mine"}})";
  EXPECT_EQ(*ParseObject(text), Object::parse(text));
}

TEST(ObjectJsonTest, KeepsWhatIsNamedOfAnObjectOrOfEachEntry) {
  const FieldTree keep = {"metadata.name", "metadata.labels", "spec.containers.name",
                          "spec.containers.status", "spec.nodeName"};
  const std::string object =
      R"({"metadata":{"name":"n","uid":"u","labels":{"a":"1","b":"2"}},"spec":{"volumes":[{"x":[1]}],)"
      R"("containers":[{"name":"c","env":[{"name":"E"}],"status":"kept"},{"name":"d","env":7}],)"
      R"("nodeName":"o"},"status":{"phase":"Running"}})";
  const Object kept =
      Object::parse(R"({"metadata":{"name":"n","labels":{"a":"1","b":"2"}},"spec":{"containers":[)"
                    R"({"name":"c","status":"kept"},{"name":"d"}],"nodeName":"o"}})");
  EXPECT_EQ(*ParseObject(object, "", &keep), kept);
  const auto event =
      ParseObject(R"({"type":"ADDED","status":1,"object":)" + object + "}", "object", &keep);
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->at("object"), kept);
  EXPECT_EQ(event->at("status"), 1);
  const auto list = ParseObject(R"({"items":[)" + object + "," + object + R"(],"spec":{"x":{}}})",
                                "items", &keep);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->at("items"), Object::array({kept, kept}));
  EXPECT_EQ(list->at("spec"), Object({{"x", Object::object()}}));
}

TEST(ObjectJsonTest, WhatIsNamedBelowAValueThatHasNoMembersKeepsTheValue) {
  const FieldTree keep = {"spec.containers.name", "status.phase"};
  const std::string text = R"({"spec":{"containers":[1,"x",["y",{"name":"n","z":1}]]},"status":3})";
  EXPECT_EQ(*ParseObject(text, "", &keep),
            Object::parse(R"({"spec":{"containers":[1,"x",["y",{"name":"n"}]]},"status":3})"));
}

TEST(ObjectJsonTest, RefusesWhatIsNoJson) {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "{\"a\":1}x", "\xc3\x28"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObject(text).status())) << text;
  }
}

TEST(ObjectJsonTest, RefusesNestingWithoutEnd) {
  const auto deep = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_TRUE(ParseObject(deep(200)).ok());
  EXPECT_THAT(ParseObject(deep(100'000)).status().ToString(), HasSubstr("deeper than 200"));
  const std::string skipped = R"({"metadata":{"managedFields":)" + deep(100'000) + "}}";
  EXPECT_THAT(ParseObject(skipped).status().ToString(), HasSubstr("deeper than 200"));
}

}  // namespace
}  // namespace lockstep::kube
