#include "trainer/comm/gradient_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "trainer/comm/shm/shared_segment.h"

namespace lockstep::train {
namespace {

TEST(GradientBufferTest, IsZeroedAndAligned) {
  const auto buffer = GradientBuffer::Create(1001);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->size(), 1001u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*buffer)->data()) % 64, 0u);
  const std::span<const float> data((*buffer)->data(), (*buffer)->size());
  EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](float x) { return x == 0; }));
}

TEST(GradientBufferTest, TheFirstGenerationNeedsNoNewMemoryTheSecondDoes) {
  const auto buffer = GradientBuffer::Create(100);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  (*buffer)->data()[99] = 7;
  const float* const data = (*buffer)->data();
  const std::string name = (*buffer)->name();
  ASSERT_FALSE(name.empty());
  ASSERT_TRUE((*buffer)->Renew().ok());
  EXPECT_EQ((*buffer)->name(), name);
  ASSERT_TRUE((*buffer)->Renew().ok());
  EXPECT_NE((*buffer)->name(), name);
  EXPECT_EQ((*buffer)->data(), data);
  EXPECT_EQ(data[99], 7);
}

TEST(GradientBufferTest, MoreThanThereIsIsResourceExhausted) {
  const auto buffer = GradientBuffer::Create(std::numeric_limits<std::size_t>::max() / 16);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted) << buffer.status();
}

}  // namespace
}  // namespace lockstep::train
