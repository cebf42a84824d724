#include "base/shorten.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ShortenTest, LeavesWhatFitsAsItIs) {
  EXPECT_EQ(Shortened("", 0, "…"), "");
  EXPECT_EQ(Shortened("five!", 5, "…"), "five!");
}

TEST(ShortenTest, MarksWhatIsCut) {
  EXPECT_EQ(Shortened("sixsix", 5), "sixsi");
  EXPECT_EQ(Shortened("sixsix", 5, " …"), "sixsi …");
  EXPECT_EQ(Shortened("sixsix", 0, "…"), "…");
}

TEST(ShortenTest, CutsAtACharactersStart) {
  const std::string text = "a\u00e9\u20ac\U0001f600";  // of 1, 2, 3 and 4 bytes
  const std::size_t starts[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6};
  for (std::size_t bytes = 0; bytes < std::size(starts); ++bytes) {
    EXPECT_EQ(Shortened(text, bytes), text.substr(0, starts[bytes])) << bytes;
  }
  EXPECT_EQ(Shortened(text, 10), text);
}

TEST(ShortenTest, EndsWithBytesThatAreNoUtf8) {
  EXPECT_EQ(Shortened("\x80\x80\x80", 2), "");
}

}  // namespace
}  // namespace lockstep
