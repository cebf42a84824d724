#include "operator/kube/rest/object_json.h"

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

TEST(ObjectJsonTest, ReadsNumbersAsTheLibraryDoes) {
  const std::string text =
      "[0,1,-1,9223372036854775807,-9223372036854775808,9223372036854775808,"
      "18446744073709551615,1.0,-2.5e-3,1E+2,1000000000080000000000003.5e-06,100000000000000000000,"
      "-9223372036854775809]";
  const auto list = ParseObject(text);
  ASSERT_TRUE(list.ok()) << list.status();
  const Object expected = Object::parse(text);
  EXPECT_EQ(*list, expected);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(list->at(i).type(), expected.at(i).type()) << expected.at(i);
  }
}

TEST(ObjectJsonTest, RejectsInvalidNumbers) {
  for (const char* text : {"[1e400]", "[-1e400]", "[01]", "[1.]", "[.5]", "[-]", "[1-2]", "[0x10]",
                           "[00000000000000000000001]", "[1000000000000000000000x]", "[+1]",
                           "[10000000000000000000-1]", "[NaN]", "[-Infinity]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObject(text).status())) << text;
  }
  EXPECT_FALSE(ParseObject("[1" + std::string(400, '0') + "]").ok());
}

TEST(ObjectJsonTest, RejectsWhatIsNeitherObjectNorList) {
  for (const char* text : {"7", "null", "\"x\"", "true"}) {
    EXPECT_THAT(ParseObject(text).status().ToString(), HasSubstr("neither an object nor a list"));
  }
}

TEST(ObjectJsonTest, ReadsTextAsTheLibraryDoes) {
  const std::string text =
      R"({"\u00e9\n":"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00 é 😀","a\"b":"","long":")" +
      std::string(1000, 'x') + "\"}";
  const auto object = ParseObject(text);
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Object::parse(text));
  for (const char* broken : {R"(["\x"])", R"(["\u12"])", R"(["\ud800"])", "[\"a\nb\"]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseObject(broken).status())) << broken;
  }
}

// Covers each form that RFC 3629 forbids, next to valid characters.
TEST(ObjectJsonTest, InvalidUtf8BytesAreReadAsQuestionMarks) {
  for (const char* forbidden :
       {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe2\x82", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xf0\x9f\x98", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80"}) {
    const std::string bytes = forbidden;
    const Object expected =
        Object::array({"é" + std::string(bytes.size(), '?') + "😀", "\u07ff\uffff\U0010ffff"});
    const auto read = ParseObject("[\"é" + bytes + "😀\",\"\u07ff\uffff\U0010ffff\"]");
    ASSERT_TRUE(read.ok()) << read.status() << expected;
    EXPECT_EQ(*read, expected);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ParseObject("\xff\xfe").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ParseObject("[\"\xff").status()));
}

// A server returns the field names in managedFields as a client sent them, even if they are not
// UTF-8.
TEST(ObjectJsonTest, InvalidUtf8InManagedFieldsDoesNotAffectTheList) {
  const auto list = ParseObject(
      "{\"items\":[{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:\xff\":{}}}],"
      "\"name\":\"a\"}},{\"metadata\":{\"name\":\"é\"}}]}",
      "items", nullptr);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(*list,
            Object::parse(R"({"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"é"}}]})"));
}

TEST(ObjectJsonTest, TheLastOfTwoMembersOfTheSameNameCounts) {
  EXPECT_EQ(*ParseObject(R"({"a":{"x":1},"a":[2]})"), Object::parse(R"({"a":[2]})"));
}

TEST(ObjectJsonTest, DropsTheManagedFieldsOfMetadata) {
  const auto object =
      ParseObject(R"({"metadata":{"managedFields":[{"a":[1,{"b":2}]},"x"],"name":"n"},"items":[)"
                  R"({"metadata":{"name":"i","managedFields":7}}],"spec":{"managedFields":[1]}})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object, Object::parse(R"({"metadata":{"name":"n"},"items":[{"metadata":{"name":"i"}}],
                                       "spec":{"managedFields":[1]}})"));
}

TEST(ObjectJsonTest, DropsManagedFieldsAsAnApiServerWritesThem) {
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

TEST(ObjectJsonTest, KeepsManagedFieldsOutsideMetadata) {
  const std::string text = R"({"metadata":{"name":"n"},"data":{"managedFields":"mine"}})";
  EXPECT_EQ(*ParseObject(text), Object::parse(text));
}

TEST(ObjectJsonTest, TheMaskAppliesToAnObjectOrToEachEntryOfAList) {
  const FieldMask keep = {"metadata.name", "metadata.labels", "spec.containers.name",
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

TEST(ObjectJsonTest, AMaskPathThatContinuesBelowAScalarKeepsTheScalar) {
  const FieldMask keep = {"spec.containers.name", "status.phase"};
  const std::string text = R"({"spec":{"containers":[1,"x",["y",{"name":"n","z":1}]]},"status":3})";
  EXPECT_EQ(*ParseObject(text, "", &keep),
            Object::parse(R"({"spec":{"containers":[1,"x",["y",{"name":"n"}]]},"status":3})"));
}

TEST(ObjectJsonTest, RejectsInvalidJson) {
  for (const char* text :
       {"",           " ",           "{",         "[",          "{\"a\":}",
        "[1,]",       "[1 2]",       "{\"a\" 1}", "{\"a\":1,}", "{a:1}",
        "{\"a\":1}x", "{}{}",        "[]]",       "[nul]",      "[nulll]",
        "[tru]",      "[truefalse]", "]",         "\xc3\x28",   "\xef\xbb\xbf{}"}) {
    const absl::Status status = ParseObject(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("not JSON")) << text;
  }
}

TEST(ObjectJsonTest, OnlyTheValueThatIsNestedTooDeepIsReplaced) {
  const auto deep = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  const auto depth_of = [](const Object& list) {
    int depth = 0;
    const Object* at = &list;
    for (; at->is_array() && !at->empty(); at = &at->front()) ++depth;
    return std::pair(depth, at->is_string() ? at->get<std::string>() : "");
  };
  EXPECT_EQ(depth_of(*ParseObject(deep(200))), std::pair(199, std::string()));
  EXPECT_EQ(depth_of(*ParseObject(deep(201))), std::pair(200, std::string(kTooDeep)));
  for (const std::size_t levels : {250U, 100'000U}) {
    const auto object = ParseObject("{\"a\":" + deep(levels) + R"(,"b":{"c":[1]},"d":2})");
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(depth_of(object->at("a")), std::pair(199, std::string(kTooDeep)));
    EXPECT_EQ(object->at("b"), Object::parse(R"({"c":[1]})"));
    EXPECT_EQ(object->at("d"), 2);
  }
  // The parser does not descend into values that it drops.
  const std::string skipped = R"({"metadata":{"managedFields":)" + deep(100'000) + "}}";
  EXPECT_EQ(*ParseObject(skipped), Object::parse(R"({"metadata":{}})"));
}

// Two bytes of JSON can become 64 bytes of memory.
TEST(ObjectJsonTest, OnlyTheMemberWithTooManyValuesIsReplaced) {
  const auto values = [](int count) { return Object(std::vector<int>(count, 7)); };
  const auto with = [](const Object& spec) {
    return Object{{"metadata", {{"name", "x"}}}, {"spec", spec}, {"status", {{"a", {1, 2}}}}};
  };
  const Object most = with(values(99'999));
  EXPECT_EQ(*ParseObject(most.dump()), most) << "the list itself is one more";
  const Object too_many[] = {values(100'000),
                             {{"a", {{"b", {values(60'000), values(60'000)}}}}, {"c", 1}},
                             {{"a", values(60'000)}, {"b", values(60'000)}, {"c", {{"d", 1}}}}};
  for (const Object& spec : too_many) {
    EXPECT_EQ(*ParseObject(with(spec).dump()), with(kTooMany));
    const Object list = {{"items", {with(spec), most, with(spec), with(1)}}, {"kind", "L"}};
    const Object read = {{"items", {with(kTooMany), most, with(kTooMany), with(1)}}, {"kind", "L"}};
    EXPECT_EQ(*ParseObject(list.dump(), "items", nullptr), read);
    const Object event = {{"object", with(spec)}, {"type", "ADDED"}};
    EXPECT_EQ(*ParseObject(event.dump(), "object", nullptr),
              Object({{"object", with(kTooMany)}, {"type", "ADDED"}}));
    const FieldMask keep = {"metadata"};
    EXPECT_EQ(*ParseObject(with(spec).dump(), "", &keep), Object({{"metadata", {{"name", "x"}}}}));
  }
}

// An object with too many labels must still be identifiable.
TEST(ObjectJsonTest, OnlyTheMemberOfMetadataWithTooManyValuesIsReplaced) {
  Object labels = Object::object();
  for (int i = 0; i < 9'999; ++i) labels[std::to_string(i)] = "";
  const Object most = {{"metadata", {{"annotations", labels}, {"labels", labels}}}};
  EXPECT_EQ(*ParseObject(most.dump()), most);
  labels["one"] = "more";
  const auto with = [](const Object& held) {
    return Object{{"metadata", {{"labels", held}, {"name", "x"}, {"uid", "u"}}}, {"spec", 1}};
  };
  const FieldMask keep = {"metadata", "spec"};
  for (const FieldMask* kept : {&keep, static_cast<const FieldMask*>(nullptr)}) {
    EXPECT_EQ(*ParseObject(with(labels).dump(), "", kept), with(kTooMany));
    const Object list = {{"items", {with(labels), with(1)}}};
    EXPECT_EQ(*ParseObject(list.dump(), "items", kept),
              Object({{"items", {with(kTooMany), with(1)}}}));
    const Object event = {{"object", with(labels)}, {"type", "MODIFIED"}};
    EXPECT_EQ(*ParseObject(event.dump(), "object", kept),
              Object({{"object", with(kTooMany)}, {"type", "MODIFIED"}}));
  }
  // Metadata within the spec has the spec's limit.
  const Object inner = {{"spec", {{"metadata", {{"labels", labels}}}}}};
  EXPECT_EQ(*ParseObject(inner.dump()), inner);
}

}  // namespace
}  // namespace lockstep::kube
