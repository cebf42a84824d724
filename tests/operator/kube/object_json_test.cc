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

TEST(ObjectJsonTest, KeepsAMapOfTheUsersCalledSo) {
  const std::string text = R"({"metadata":{"name":"n"},"data":{"managedFields":"mine"}})";
  EXPECT_EQ(*ParseObject(text), Object::parse(text));
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
