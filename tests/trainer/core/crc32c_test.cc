#include "trainer/core/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "trainer/core/rng.h"

namespace lockstep::train {
namespace {

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// RFC 3720, appendix B.4, and the check value of the CRC catalogue.
TEST(Crc32cTest, GivesThePublishedNumbers) {
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, TablesAndInstructionAgreeAtEveryLengthAndAlignment) {
  std::string text;
  for (std::uint64_t i = 0; i < 100; ++i) text += static_cast<char>(Philox(1, i, 0)[0]);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t length = 0; begin + length <= text.size(); ++length) {
      const auto bytes = Bytes(text).subspan(begin, length);
      ASSERT_EQ(ExtendCrc32c(7, bytes), ExtendCrc32cPortable(7, bytes)) << begin << " " << length;
    }
  }
}

TEST(Crc32cTest, ExtendingEqualsOnePass) {
  const std::string text = "a checkpoint is written in pieces";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(ExtendCrc32c(Crc32c(text.substr(0, cut)), Bytes(text).subspan(cut)), Crc32c(text));
  }
}

}  // namespace
}  // namespace lockstep::train
