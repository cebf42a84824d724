#include "base/rare.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace lockstep {
namespace {

TEST(RareTest, TakesAPointersMemoryWhileAbsent) {
  struct Large {
    char bytes[1000];
  };
  EXPECT_EQ(sizeof(Rare<Large>), sizeof(void*));
  EXPECT_FALSE(Rare<Large>().has_value());
  EXPECT_FALSE(Rare<Large>(std::nullopt));
}

TEST(RareTest, ACopyHasAValueOfItsOwn) {
  Rare<std::string> first = std::string("one");
  Rare<std::string> second = first;
  *second = "two";
  EXPECT_EQ(*first, "one");
  first = second;
  second->push_back('!');
  EXPECT_EQ(*first, "two");
  const auto& self = first;
  first = self;
  EXPECT_EQ(*first, "two");
  first = std::nullopt;
  EXPECT_FALSE(first);
  EXPECT_TRUE(std::exchange(second, std::nullopt).has_value());
  EXPECT_FALSE(second.has_value());
}

TEST(RareTest, ValuesAreComparedNotTheirPlaces) {
  const Rare<std::string> none, one = std::string("one"), same = std::string("one"),
                                two = std::string("two");
  EXPECT_EQ(one, same);
  EXPECT_EQ(none, Rare<std::string>());
  EXPECT_NE(one, two);
  EXPECT_NE(one, none);
  EXPECT_NE(none, one);
}

}  // namespace
}  // namespace lockstep
