#include "tests/trainer/backend/cuda/same_abi.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

namespace lockstep::train::cuda {

// Names as those of driver_api.h and cuda.h.
using OurStream = struct OurStreamStruct*;
using TheirStream = struct TheirStreamStruct*;
using TheirEvent = struct TheirEventStruct*;
enum TheirEnum : unsigned { kTheirs = 1 };
enum class OurEnum : int { kOurs = 1 };
enum OtherEnum : unsigned { kOthers = 1 };
struct LargeStruct {
  std::int64_t values[8];
};

template <>
inline constexpr bool kIsSameNamed<OurStreamStruct, TheirStreamStruct> = true;
template <>
inline constexpr bool kIsSameNamed<OurEnum, TheirEnum> = true;

namespace {

TEST(SameAbiTest, HandlesAndEnumerationsMayHaveNamesOfOurOwn) {
  EXPECT_TRUE((IsSameType<OurStream, TheirStream>()));
  EXPECT_TRUE((IsSameType<int, TheirEnum>()));
  EXPECT_TRUE((IsSameType<int*, TheirEnum*>()));
  EXPECT_TRUE((IsSameType<OurEnum, TheirEnum>()));
  EXPECT_TRUE((IsSameType<std::uint64_t, unsigned long long>()));
  EXPECT_TRUE((IsSameType<int (*)(OurStream, void (*)(void*), const char**),
                          TheirEnum (*)(TheirStream, void (*)(void*), const char**)>()));
}

TEST(SameAbiTest, OtherArgumentsAreSeen) {
  EXPECT_FALSE((IsSameType<int (*)(OurStream), int (*)(TheirEvent)>())) << "another handle";
  EXPECT_FALSE((IsSameType<int (*)(OurStream), int (*)(TheirStream, int)>())) << "one fewer";
  EXPECT_FALSE((IsSameType<int (*)(OurStream), int (*)(void*)>()));
  EXPECT_FALSE((IsSameType<int (*)(int), int (*)(unsigned)>()));
  EXPECT_FALSE((IsSameType<int (*)(int), int (*)(std::int64_t)>()));
  EXPECT_FALSE((IsSameType<int (*)(int), int (*)(float)>()));
  EXPECT_FALSE((IsSameType<int (*)(int), int (*)(int*)>()));
  EXPECT_FALSE((IsSameType<int (*)(std::int64_t), int (*)(TheirEnum)>()));
  EXPECT_FALSE((IsSameType<int (*)(OurEnum), int (*)(OtherEnum)>()));
  EXPECT_FALSE((IsSameType<void (*)(int), int (*)(int)>())) << "another result";
}

TEST(SameAbiTest, WhatIsPointedToIsCompared) {
  EXPECT_FALSE((IsSameType<const int*, int*>()));
  EXPECT_FALSE((IsSameType<std::size_t*, int*>()));
  EXPECT_FALSE((IsSameType<void*, void**>()));
  EXPECT_FALSE((IsSameType<void*, LargeStruct*>()));
  EXPECT_FALSE((IsSameType<void (*)(void*), void (*)(int)>()));
}

}  // namespace
}  // namespace lockstep::train::cuda
