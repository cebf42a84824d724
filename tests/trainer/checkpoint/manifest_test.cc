#include "trainer/checkpoint/manifest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/mutate.h"
#include "trainer/core/crc32c.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

Manifest Sample() {
  return {200,
          {{"seed", 1}, {"learningRate", 0.1}, {"big", std::numeric_limits<std::int64_t>::min()}},
          "abc123",
          {{"model.safetensors", 1234, 0xDEADBEEF}, {"optimizer.safetensors", 0, 7}},
          Time(std::chrono::seconds(1'700'000'000))};
}

absl::Status ManifestError(const std::string& text) {
  return DecodeManifest(text, "m.json").status();
}

TEST(ManifestTest, ReadsWhatItWrote) {
  const auto decoded = DecodeManifest(EncodeManifest(Sample()), "m.json");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(ManifestTest, ReaderSeesWhatJsonCannotHoldAsNull) {
  Manifest manifest = Sample();
  manifest.state = {{"loss", std::numeric_limits<double>::quiet_NaN()}, {"text", "\xFF"}};
  const auto decoded = DecodeManifest(EncodeManifest(manifest), "m.json");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(decoded->state["loss"].is_null());
}

// The text of a program that did not write it down, with the checksum that it has.
std::string WithoutSavedTime() {
  auto json = nlohmann::json::parse(EncodeManifest(Sample()));
  json.erase("savedTime");
  json.erase("checksum");
  json["checksum"] = fmt::format("{:08x}", Crc32c(json.dump()));
  return json.dump();
}

TEST(ManifestTest, EarlierProgramsDidNotSayWhenTheySaved) {
  const auto decoded = DecodeManifest(WithoutSavedTime(), "m.json");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->saved, Time());
  EXPECT_EQ(decoded->step, 200);
}

TEST(ManifestTest, ATimeBeyondWhatTheClockHoldsIsNone) {
  auto json = nlohmann::json::parse(WithoutSavedTime());
  json.erase("checksum");
  json["savedTime"] = std::numeric_limits<std::uint64_t>::max();
  json["checksum"] = fmt::format("{:08x}", Crc32c(json.dump()));
  EXPECT_EQ(DecodeManifest(json.dump(), "m.json")->saved, Time());
}

TEST(ManifestTest, NewerFormatIsNamed) {
  std::string text = EncodeManifest(Sample());
  text.replace(text.find("\"formatVersion\": 1"), 18, "\"formatVersion\": 3");
  const absl::Status status = ManifestError(text);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("m.json: formatVersion is 3, this program reads up to 2"));
}

TEST(ManifestTest, ChangedValueIsFoundByTheChecksum) {
  std::string text = EncodeManifest(Sample());
  text.replace(text.find("200"), 3, "201");
  const absl::Status status = ManifestError(text);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
}

TEST(ManifestTest, TextThatIsNoManifestIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "{}", R"({"formatVersion":"1"})",
                           R"({"formatVersion":1})", R"({"formatVersion":0,"checksum":1})"}) {
    EXPECT_TRUE(absl::IsDataLoss(ManifestError(text))) << text;
  }
}

TEST(ManifestTest, DeeplyNestedTextIsRefused) {
  const std::string text =
      "{\"state\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  EXPECT_THAT(std::string(ManifestError(text).message()),
              HasSubstr("not a JSON object of at most 64 levels"));
}

// Minutes, if each member were compared with those before it.
TEST(ManifestTest, ATextOfManyMembersIsReadAtOnce) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i) text += "\"" + std::to_string(i) + "\":{},";
  text.back() = '}';
  EXPECT_THAT(std::string(ManifestError(text).message()), HasSubstr("there is no formatVersion"));
}

TEST(ManifestTest, AStateThatIsNoObjectIsDamage) {
  Manifest manifest = Sample();
  for (const nlohmann::json& state :
       {nlohmann::json(7), nlohmann::json(nullptr), nlohmann::json::array({1, 2})}) {
    manifest.state = state;
    EXPECT_TRUE(absl::IsDataLoss(ManifestError(EncodeManifest(manifest)))) << state;
    for (const char* part : {"run", "settings", "evaluation"}) {
      manifest.state = {{part, state}};
      const absl::Status error = ManifestError(EncodeManifest(manifest));
      EXPECT_TRUE(absl::IsDataLoss(error)) << error;
      EXPECT_THAT(std::string(error.message()), HasSubstr(std::string("state.") + part));
    }
  }
}

TEST(ManifestTest, DamageIsFoundOrHarmless) {
  const std::string text = EncodeManifest(Sample());
  int harmless = 0;
  for (std::uint64_t n = 0; n < 20000; ++n) {
    const auto decoded = DecodeManifest(Mutate(text, n), "m.json");
    if (decoded.ok()) {
      ++harmless;
      EXPECT_EQ(*decoded, Sample()) << Mutate(text, n);  // white space was changed
    }
  }
  EXPECT_LT(harmless, 4000);
}

}  // namespace
}  // namespace lockstep::train
