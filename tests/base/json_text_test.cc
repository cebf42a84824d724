#include "base/json_text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(JsonTextTest, IsCompactAndAscii) {
  EXPECT_EQ(JsonText({{"b", {1, 2}}, {"a", nullptr}}), R"({"a":null,"b":[1,2]})");
  EXPECT_EQ(JsonText("ü\n"), R"("\u00fc\n")");
  EXPECT_EQ(JsonText("\xff"), R"("\ufffd")");
}

TEST(JsonTextTest, AnObjectForProgramsHasNothingThatATerminalObeys) {
  const nlohmann::ordered_json json = {{"b", "\u202E\u009b\x7f\x1b"}, {"a", "ü\xff"}};
  EXPECT_EQ(AsciiJson(json), R"({"b":"\u202e\u009b\u007f\u001b","a":"\u00fc\ufffd"})");
}

TEST(JsonTextTest, IsCutShort) {
  EXPECT_EQ(JsonText("abcdef", 8), R"("abcdef")");
  EXPECT_EQ(JsonText("abcdef", 4), R"("abc…)");
}

}  // namespace
}  // namespace lockstep
