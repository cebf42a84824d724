#include "base/rfc3339.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

Time At(std::int64_t unix_seconds) {
  return Time{seconds{unix_seconds}};
}

TEST(Rfc3339Test, SpellsWholeSecondsWithoutAFraction) {
  EXPECT_EQ(FormatRfc3339(At(0)), "1970-01-01T00:00:00Z");
  EXPECT_EQ(FormatRfc3339(At(1'700'000'000)), "2023-11-14T22:13:20Z");
  EXPECT_EQ(FormatRfc3339(At(951'782'400)), "2000-02-29T00:00:00Z");
}

TEST(Rfc3339Test, SpellsAsManyFractionDigitsAsNeeded) {
  EXPECT_EQ(FormatRfc3339(At(1) + milliseconds{250}), "1970-01-01T00:00:01.25Z");
  EXPECT_EQ(FormatRfc3339(At(1) + nanoseconds{1}), "1970-01-01T00:00:01.000000001Z");
}

TEST(Rfc3339Test, SpellsExactlyTheDigitsAskedForAndCutsTheRest) {
  const Time time = At(59) + nanoseconds{999'999'999};
  EXPECT_EQ(FormatRfc3339(time, 0), "1970-01-01T00:00:59Z");
  EXPECT_EQ(FormatRfc3339(time, 3), "1970-01-01T00:00:59.999Z");
  EXPECT_EQ(FormatRfc3339(time, 9), "1970-01-01T00:00:59.999999999Z");
  EXPECT_EQ(FormatRfc3339(At(0), 3), "1970-01-01T00:00:00.000Z");
}

TEST(Rfc3339Test, TheApisTimesHaveNoDigitsOrSix) {
  const Time time = At(1) + nanoseconds{1'999};
  EXPECT_EQ(FormatApiTime(time), "1970-01-01T00:00:01Z");
  EXPECT_EQ(FormatApiMicroTime(time), "1970-01-01T00:00:01.000001Z");
}

TEST(Rfc3339Test, ReadsFractionsAndOffsets) {
  EXPECT_EQ(ParseRfc3339("2023-11-14T22:13:20Z"), At(1'700'000'000));
  EXPECT_EQ(ParseRfc3339("2023-11-15T00:13:20+02:00"), At(1'700'000'000));
  EXPECT_EQ(ParseRfc3339("2023-11-14T16:43:20-05:30"), At(1'700'000'000));
  EXPECT_EQ(ParseRfc3339("2023-11-14T22:13:20.5Z"), At(1'700'000'000) + milliseconds{500});
  EXPECT_EQ(ParseRfc3339("2023-11-14T22:13:20.123456789987Z"),
            At(1'700'000'000) + nanoseconds{123'456'789});
}

TEST(Rfc3339Test, RefusesWhatIsNoInstant) {
  for (const char* text : {"", "now", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14 22:13:20Z",
                           "2023-02-30T00:00:00Z", "2023-13-01T00:00:00Z", "2023-11-14T24:00:00Z",
                           "2023-11-14T22:60:00Z", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Zx",
                           "2023-11-14T22:13:20+24:00", "1969-12-31T23:59:59Z",
                           "2262-01-01T00:00:00Z", "2023-1-14T22:13:20Z"}) {
    EXPECT_EQ(ParseRfc3339(text), std::nullopt) << text;
  }
}

TEST(Rfc3339Test, AnExpiryMayHaveAnyYear) {
  EXPECT_EQ(ParseExpiry("2023-11-15T00:13:20+02:00"), At(1'700'000'000));
  EXPECT_EQ(ParseExpiry("9999-12-31T23:59:59Z"), Time::max());
  EXPECT_EQ(ParseExpiry("2262-01-01T00:00:00Z"), Time::max());
  EXPECT_EQ(ParseExpiry("0001-01-01T00:00:00Z"), Time::max());
  EXPECT_EQ(ParseExpiry("0001-01-01T00:00:01Z"), At(0));
  EXPECT_EQ(ParseExpiry("9999-02-30T00:00:00Z"), std::nullopt);
  EXPECT_EQ(ParseExpiry("never"), std::nullopt);
}

TEST(Rfc3339Test, EveryInstantReadsBackAsItself) {
  for (std::int64_t i = 0; i < 2000; ++i) {
    const Time time = At(i * 4'599'937) + nanoseconds{i * 7'919'993 % 1'000'000'000};
    EXPECT_EQ(ParseRfc3339(FormatRfc3339(time)), time) << FormatRfc3339(time);
  }
}

}  // namespace
}  // namespace lockstep
