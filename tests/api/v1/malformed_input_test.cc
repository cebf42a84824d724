// Whatever the bytes, reading a job ends in a job or in an error that can be printed.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "api/v1/defaults.h"
#include "api/v1/validate.h"
#include "api/v1/yaml.h"
#include "tests/support/builders.h"

namespace lockstep::api {
namespace {

// Everything that may be done with text of unknown origin. True if it was a job.
bool ReadAndValidate(const std::string& text) {
  const auto documents = ParseYaml(text, "fuzz");
  if (!documents.ok()) {
    EXPECT_FALSE(documents.status().message().empty());
    return false;
  }
  bool any = false;
  for (const Json& document : *documents) {
    EXPECT_FALSE(document.dump(-1, ' ', false, Json::error_handler_t::replace).empty());
    const auto job = TrainingJobFromJson(document);
    if (!job.ok()) {
      EXPECT_FALSE(job.status().message().empty());
      continue;
    }
    any = true;
    for (const FieldError& error : Validate(WithDefaults(*job))) {
      EXPECT_FALSE(error.message.empty());
    }
    EXPECT_EQ(TrainingJobFromJson(TrainingJobToJson(*job)).value(), *job);
  }
  return any;
}

std::string Mutated(std::string text, std::mt19937& random) {
  static const std::string kPieces[] = {"[",     "]",   "{",     "}",     ":",
                                        "- ",    "\n",  "  ",    "&a",    "*a",
                                        "'",     "\"",  "|",     ">",     "#",
                                        "---\n", "?",   "!!int", "\t",    "\xff",
                                        "\xc3",  "%",   "1e999", ".nan",  "-1",
                                        "null",  "<<:", "\\u00", "\x00x", "99999999999999999999"};
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, kPieces[random() % std::size(kPieces)]);
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        break;
      case 2:
        text.resize(at);
        break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random() % 256);
    }
    if (text.empty()) text = "a";
  }
  return text;
}

TEST(MalformedInputTest, MutatedYamlNeverCrashes) {
  const Json json = TrainingJobToJson(
      lockstep::testing::Job("mnist").Chief().Workers(2).Training().BuildWithDefaults());
  const std::string yaml = ToYaml(nlohmann::ordered_json(json));
  ASSERT_TRUE(ReadAndValidate(yaml)) << yaml;
  std::mt19937 random(11);
  int jobs = 0;
  for (int i = 0; i < 4000; ++i) jobs += ReadAndValidate(Mutated(yaml, random)) ? 1 : 0;
  // Mutations must leave enough of the text for the readers behind the parser to be reached.
  EXPECT_GT(jobs, 100);
}

// Any value in any place.
void ReplaceOne(Json& json, std::mt19937& random) {
  static const Json kValues[] = {nullptr,
                                 true,
                                 -1,
                                 1e300,
                                 0.5,
                                 "",
                                 "x",
                                 Json::array(),
                                 Json::object(),
                                 Json{{"a", 1}},
                                 Json::array({Json::object(), 1}),
                                 18'446'744'073'709'551'615U};
  const Json flat = json.flatten();
  auto at = flat.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random() % flat.size()));
  Json::json_pointer pointer(at.key());
  for (auto up = random() % 3; up > 0 && !pointer.parent_pointer().empty(); --up) {
    pointer = pointer.parent_pointer();
  }
  json[pointer] = kValues[random() % std::size(kValues)];
}

TEST(MalformedInputTest, AnyValueInAnyPlaceIsReadOrRefused) {
  const Json json = TrainingJobToJson(
      lockstep::testing::Job("tf").Chief().Workers(2).ParameterServers(1).BuildWithDefaults());
  const Json training =
      TrainingJobToJson(lockstep::testing::Job("mnist").Workers(2).Training().BuildWithDefaults());
  std::mt19937 random(13);
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    Json changed = i % 2 == 0 ? json : training;
    ReplaceOne(changed, random);
    const auto job = TrainingJobFromJson(changed);
    if (!job.ok()) {
      ++refused;
      continue;
    }
    Validate(WithDefaults(*job));
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4000);
}

}  // namespace
}  // namespace lockstep::api
