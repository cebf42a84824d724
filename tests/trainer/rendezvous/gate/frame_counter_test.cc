#include "trainer/rendezvous/gate/frame_counter.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::train {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

std::string Frame(char type, const std::string& payload) {
  std::string head(9, '\0');
  head[1] = static_cast<char>(payload.size() >> 8 & 0xff);
  head[2] = static_cast<char>(payload.size() & 0xff);
  head[3] = type;
  return head + payload;
}

TEST(FrameCounterTest, CountsFramesAndStreamsHoweverTheirBytesCome) {
  const std::string bytes = kPreface + Frame(4, "") + Frame(1, "head") + Frame(3, "\1\1\1\1") +
                            Frame(0, std::string(300, '\1')) + Frame(1, "");
  for (std::size_t size = 1; size <= bytes.size(); ++size) {
    FrameCounter counter;
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      counter.Feed(std::string_view(bytes).substr(at, size));
    }
    ASSERT_EQ(counter.frames(), 5u) << size;
    ASSERT_EQ(counter.streams(), 2u) << size;
    ASSERT_EQ(counter.bytes(), bytes.size()) << size;
  }
}

TEST(FrameCounterTest, ThePrefaceIsNoFrame) {
  FrameCounter counter;
  counter.Feed(kPreface);
  EXPECT_EQ(counter.frames(), 0u);
}

}  // namespace
}  // namespace lockstep::train
