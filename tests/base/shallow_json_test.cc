#include "base/shallow_json.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

TEST(ShallowJsonTest, LevelsAreThoseOfObjectsAndLists) {
  EXPECT_EQ(ParseShallowJson("7", 0), 7);
  EXPECT_TRUE(ParseShallowJson("[]", 0).is_discarded());
  EXPECT_EQ(ParseShallowJson(R"([[], {}, [1], "x"])", 2).size(), 4u);
  EXPECT_EQ(ParseShallowJson(R"({"a": {"b": [1]}})", 3)["a"]["b"][0], 1);
  EXPECT_TRUE(ParseShallowJson(R"({"a": {"b": [1]}})", 2).is_discarded());
}

TEST(ShallowJsonTest, BracketsInStringsAreNoLevels) {
  EXPECT_EQ(ParseShallowJson(R"(["[[[", "\"[[", "\\", {"{\"[[": "]"}])", 2).size(), 4u);
  EXPECT_TRUE(ParseShallowJson(R"(["\\", [[1]]])", 2).is_discarded());
}

TEST(ShallowJsonTest, WhatIsNoJsonIsDiscarded) {
  for (const char* text : {"", "{", "]", "[1,]", R"(["\)", R"(["x)", "]]]][[[[", R"(\"[[[[)"}) {
    EXPECT_TRUE(ParseShallowJson(text, 3).is_discarded()) << text;
  }
  EXPECT_TRUE(ParseShallowJson(std::string(1'000'000, '['), 8).is_discarded());
}

// Minutes, if each member were compared with those before it.
TEST(ShallowJsonTest, ManyMembersTakeNoLongerEach) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"" + std::to_string(i) + "\":{},";
  text.back() = '}';
  EXPECT_EQ(ParseShallowJson(text, 2).size(), 200'000u);
}

}  // namespace
}  // namespace lockstep
