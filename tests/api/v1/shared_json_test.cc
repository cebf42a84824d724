#include "api/v1/shared_json.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace lockstep::api {
namespace {

using Json = nlohmann::json;

const Json kValue = {{"b", {1, 2.5, nullptr, "x\ny", -0.0}}, {"a", {{"c", 18446744073709551615U}}}};

TEST(SharedJsonTest, CopiesOfAValueShareIt) {
  const SharedJson value(kValue);
  const SharedJson copy = value;
  EXPECT_TRUE(copy.is_parsed());
  EXPECT_EQ(&*copy, &*value);
}

TEST(SharedJsonTest, TextIsTheSameValue) {
  const SharedJson packed = SharedJson(kValue).Packed();
  EXPECT_FALSE(packed.is_parsed());
  EXPECT_EQ(*packed.Text(), kValue.dump());
  EXPECT_FALSE(packed.is_parsed());
  EXPECT_EQ(packed, SharedJson(kValue));
  EXPECT_EQ(packed->dump(), kValue.dump());
  EXPECT_EQ(*packed.Text(), *SharedJson(kValue).Text());
}

TEST(SharedJsonTest, WhatACopyParsesIsTheCopys) {
  const SharedJson kept = SharedJson(kValue).Packed();
  const SharedJson read = kept;
  EXPECT_EQ(*read, kValue);
  EXPECT_TRUE(read.is_parsed());
  EXPECT_FALSE(kept.is_parsed());
  const SharedJson later = read;
  EXPECT_EQ(&*later, &*read);
  EXPECT_FALSE(read.Packed().is_parsed());
}

TEST(SharedJsonTest, EmptinessIsKnownWithoutParsing) {
  for (const Json& empty : {Json::object(), Json::array()}) {
    EXPECT_TRUE(SharedJson(empty).empty());
    const SharedJson packed = SharedJson(empty).Packed();
    EXPECT_TRUE(packed.empty());
    EXPECT_FALSE(packed.is_parsed());
  }
  EXPECT_FALSE(SharedJson(kValue).empty());
  EXPECT_FALSE(SharedJson(kValue).Packed().empty());
}

TEST(SharedJsonTest, ThreadsThatReadTheSameOneParseItOnce) {
  const SharedJson packed = SharedJson(kValue).Packed();
  std::array<const Json*, 8> read{};
  {
    std::vector<std::jthread> threads;
    for (const Json*& value : read) {
      threads.emplace_back([&packed, &value] {
        const SharedJson copy = packed;  // while others read
        EXPECT_EQ(*copy, kValue);
        value = &*packed;
      });
    }
  }
  for (const Json* value : read) EXPECT_EQ(value, read.front());
  EXPECT_EQ(*read.front(), kValue);
}

}  // namespace
}  // namespace lockstep::api
