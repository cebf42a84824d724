#include "trainer/observe/event_record.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::train {
namespace {

std::string Hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

// Bytes of the messages as Python's tensorboard and protobuf packages serialise them.
TEST(EventRecordTest, EventsAreThoseOfTensorBoard) {
  EXPECT_EQ(Hex(EncodeVersionEvent(1.5)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  EXPECT_EQ(Hex(EncodeStartEvent(1.5, 81)), "09000000000000f83f10513a020801");
  EXPECT_EQ(Hex(EncodeScalarEvent(1.5, 300, "loss", 0.25f)),
            "09000000000000f83f10ac022a0d0a0b0a046c6f7373150000803e");
}

// The first record of a file that TensorBoard itself has written.
TEST(EventRecordTest, FrameIsThatOfTensorBoard) {
  EXPECT_EQ(Hex(FrameRecord(EncodeVersionEvent(1.5))),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
}

TEST(EventRecordTest, LargeStepsAndNegativeOnesAreVarints) {
  EXPECT_EQ(Hex(EncodeScalarEvent(0, -1, "", 0)).substr(18, 22), "10ffffffffffffffffff01");
}

}  // namespace
}  // namespace lockstep::train
