#include "api/v1/quantity.h"

#include <gtest/gtest.h>

namespace lockstep::api {
namespace {

TEST(QuantityTest, SuffixesAndPlainNumbersAreRead) {
  struct Case {
    Json text;
    double expected;
  };
  const Case cases[] = {{"2", 2},      {2, 2},           {1.5, 1.5},     {"500m", 0.5},
                        {"1e3", 1000}, {"4Gi", 0x1p32},  {"1k", 1000},   {"1.5M", 1.5e6},
                        {"-1", -1},    {"0", 0},         {"100n", 1e-7}, {"2Ei", 0x1p61},
                        {"+1", 1},     {"+.5Gi", 0x1p29}};
  for (const Case& c : cases) {
    const auto value = ParseQuantity(c.text);
    ASSERT_TRUE(value.ok()) << c.text;
    EXPECT_DOUBLE_EQ(*value, c.expected) << c.text;
  }
}

TEST(QuantityTest, WhatIsNoQuantityIsRefused) {
  for (const Json& bad :
       {Json("Gi"), Json(""), Json("1 Gi"), Json("1ki"), Json("inf"), Json("nan"), Json(true),
        Json(nullptr), Json::object(), Json("1Gi "), Json("+-1"), Json("++1"), Json("+")}) {
    EXPECT_FALSE(ParseQuantity(bad).ok()) << bad;
  }
  EXPECT_FALSE(ParseQuantity(Json("\xff\xffi")).ok()) << "no text at all";
}

TEST(QuantityTest, AreWrittenSoThatTheyReadBackAsTheSame) {
  struct Case {
    double value;
    const char* expected;
  };
  const Case cases[] = {{0, "0"},
                        {2, "2"},
                        {0.5, "500m"},
                        {1.5, "1500m"},
                        {0.1 + 0.2, "300m"},
                        {1e-9, "1m"},
                        {0x1p32, "4294967296"}};
  for (const Case& c : cases) EXPECT_EQ(FormatQuantity(c.value), c.expected) << c.value;
}

}  // namespace
}  // namespace lockstep::api
