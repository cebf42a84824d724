#include "base/digest.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DigestTest, IsThatOfTheDraftsTestVectors) {
  EXPECT_EQ(Digest(""), 0xcbf29ce484222325);
  EXPECT_EQ(Digest("a"), 0xaf63dc4c8601ec8c);
  EXPECT_EQ(Digest("foobar"), 0x85944171f73967e8);
}

TEST(DigestTest, TakesBytesAsUnsigned) {
  EXPECT_EQ(Digest("\xff"), 0xaf64724c8602eb6e);
}

TEST(DigestTest, OfPiecesIsThatOfTheWhole) {
  EXPECT_EQ(Digest("bar", Digest("foo")), Digest("foobar"));
}

}  // namespace
}  // namespace lockstep
