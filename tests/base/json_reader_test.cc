#include "base/json_reader.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lockstep {
namespace {

using nlohmann::json;

std::string Lines(const std::vector<FieldError>& errors) {
  return std::string(ToStatus(errors).message());
}

TEST(JsonReaderTest, FindsFieldsByNameAndTakesNullForAbsent) {
  const json object = {{"one", 1}, {"none", nullptr}};
  std::vector<FieldError> errors;
  JsonReader reader(object, "", &errors);
  ASSERT_NE(reader.Find("one"), nullptr);
  EXPECT_EQ(*reader.Find("one"), 1);
  EXPECT_EQ(reader.Find("none"), nullptr);
  EXPECT_EQ(reader.Find("other"), nullptr);
  EXPECT_EQ(Lines(errors), "");
}

TEST(JsonReaderTest, WhatIsNoObjectIsAFaultWithoutFields) {
  std::vector<FieldError> errors;
  const json list = {1};
  JsonReader reader(list, "spec.training", &errors);
  EXPECT_EQ(reader.Find("epochs"), nullptr);
  reader.RefuseOthers();
  EXPECT_EQ(Lines(errors), "spec.training: found a list, expected an object");
}

TEST(JsonReaderTest, OthersAreRefusedWithASuggestion) {
  const json object = {{"epoch", 1}, {"steps", 2}, {"zzzzzz", 3}};
  std::vector<FieldError> errors;
  JsonReader reader(object, "training", &errors);
  reader.Find("epochs");
  reader.Find("steps");
  reader.RefuseOthers();
  EXPECT_EQ(Lines(errors),
            "training.epoch: unknown field; did you mean \"epochs\"?\n"
            "training.zzzzzz: unknown field; expected one of epochs, steps");
}

// The error of reading `value` as a T, and that only a good value is taken.
template <class T, class... Range>
std::string FaultOf(const json& value, Range... range) {
  std::vector<FieldError> errors;
  const json object = json::object();
  JsonReader reader(object, "", &errors);
  T read{};
  if constexpr (std::is_same_v<T, std::int64_t>) {
    read = reader.ReadInteger(value, "x", range...).value_or(0);
  } else {
    reader.Read(value, "x", read, range...);
  }
  EXPECT_EQ(json(read), errors.empty() ? value : json(T{}));
  return Lines(errors);
}

TEST(JsonReaderTest, AFaultSaysWhatWasFoundAndWhatWasExpected) {
  EXPECT_EQ(FaultOf<bool>(true), "");
  EXPECT_EQ(FaultOf<bool>("true"), "x: found \"true\", expected true or false");
  EXPECT_EQ(FaultOf<std::string>("text"), "");
  EXPECT_EQ(FaultOf<std::string>(json::object()), "x: found an object, expected a string");
  EXPECT_EQ(FaultOf<std::string>(json::array()), "x: found a list, expected a string");
  EXPECT_EQ(FaultOf<double>(0.5), "");
  EXPECT_EQ(FaultOf<double>("1"), "x: found \"1\", expected a number");
  EXPECT_EQ(FaultOf<double>(0, Above(0)), "x: found 0, expected a number above 0");
  EXPECT_EQ(FaultOf<double>(-1, NotBelow(0)), "x: found -1, expected a number of at least 0");
  EXPECT_EQ(FaultOf<double>(1, RealRange{0, 1, false, true}),
            "x: found 1, expected a number of at least 0 and below 1");
  const double lowest = std::numeric_limits<double>::lowest();
  EXPECT_EQ(FaultOf<double>(6, RealRange{lowest, 5}), "x: found 6, expected a number of at most 5");
  EXPECT_EQ(FaultOf<double>(5, RealRange{lowest, 5, false, true}),
            "x: found 5, expected a number below 5");
}

TEST(JsonReaderTest, IntegersHaveARangeAndNoPoint) {
  EXPECT_EQ(FaultOf<std::int64_t>(5, IntegerRange{1, 5}), "");
  EXPECT_EQ(FaultOf<std::int64_t>(6, IntegerRange{1, 5}),
            "x: found 6, expected an integer from 1 to 5");
  EXPECT_EQ(FaultOf<std::int64_t>(0, AtLeast(1)), "x: found 0, expected an integer of at least 1");
  EXPECT_EQ(FaultOf<std::int64_t>(1.0, IntegerRange{}), "x: found 1.0, expected an integer");
  EXPECT_EQ(IntegerOf(kMaxJsonInteger), kMaxJsonInteger);
  EXPECT_EQ(IntegerOf(std::uint64_t{kMaxJsonInteger} + 1), std::nullopt);
  EXPECT_EQ(IntegerOf(1e3), std::nullopt);
}

TEST(JsonReaderTest, AnAbsentValueIsNothing) {
  std::vector<FieldError> errors;
  const json object = json::object();
  JsonReader reader(object, "task", &errors);
  reader.Fault(reader.Child("index"), reader.Find("index"), "an index");
  EXPECT_EQ(Lines(errors), "task.index: found nothing, expected an index");
}

}  // namespace
}  // namespace lockstep
