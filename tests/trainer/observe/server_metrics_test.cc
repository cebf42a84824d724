#include "trainer/observe/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CountHistogramTest, ABoundBelongsToItsBucket) {
  CountHistogram histogram;
  for (const std::int64_t count : {0, 1, 2, 3, 4, 128, 129}) histogram.Observe(count);
  EXPECT_THAT(histogram.counts, ElementsAre(1, 1, 1, 2, 0, 0, 0, 0, 1, 1));
  EXPECT_EQ(histogram.sum, 267);
}

TEST(ServerMetricsTest, ALineIsDecodedAsItWasEncoded) {
  ServerMetrics metrics{.server = 3,
                        .step = 9,
                        .updates = 1,
                        .dropped = 2,
                        .pushed_bytes = std::numeric_limits<std::int64_t>::max(),
                        .pulled_bytes = 4};
  metrics.staleness.Observe(5);
  metrics.staleness.Observe(1000);
  const auto decoded = DecodeServerMetrics(EncodeServerMetrics(metrics));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, metrics);
}

TEST(ServerMetricsTest, AMalformedLineIsRefused) {
  const std::string good = EncodeServerMetrics({});
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    return line.replace(line.find(from), from.size(), to);
  };
  const struct {
    std::string line, reason;
  } cases[] = {
      {"", "not a JSON object"},
      {good.substr(1), "not a JSON object"},
      {with("{", "{\"more\":1,"), "found 8 fields, expected 7"},
      {with("updates", "update"), "metrics.updates: is missing"},
      {with("\"updates\":0", "\"updates\":-1"), "metrics.updates: found -1"},
      {with("\"updates\":0", "\"updates\":1.5"), "metrics.updates: found 1.5"},
      {with("\"server\":0", "\"server\":9223372036854775808"), "metrics.server: found"},
      {with("[0,", "["), "metrics.staleness: found"},
      {with("[0,", "[null,"), "metrics.staleness: found null"},
  };
  for (const auto& [line, reason] : cases) {
    const auto decoded = DecodeServerMetrics(line);
    EXPECT_TRUE(absl::IsInvalidArgument(decoded.status())) << line;
    EXPECT_THAT(std::string(decoded.status().message()), HasSubstr(reason)) << line;
  }
}

}  // namespace
}  // namespace lockstep::train
