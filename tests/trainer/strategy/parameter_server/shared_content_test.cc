#include "trainer/strategy/parameter_server/shared_content.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

TEST(SharedContentTest, WhoHasMappedItReadsWhatIsWritten) {
  const auto content = *SharedContent::Create(3);
  const auto mapped = SharedContent::Attach(content->locator(), 3);
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  content->Update([&] { content->data()[2] = 5; });
  float read = 0;
  EXPECT_TRUE((*mapped)->Read(content->sequence(), [&] { read = (*mapped)->data()[2]; }));
  EXPECT_EQ(read, 5);
}

TEST(SharedContentTest, AReadDuringOrAfterAnUpdateDoesNotCount) {
  const auto content = *SharedContent::Create(1);
  const auto mapped = *SharedContent::Attach(content->locator(), 1);
  const std::uint64_t before = content->sequence();
  EXPECT_TRUE(mapped->Read(before, [] {}));
  content->Update([&] { EXPECT_FALSE(mapped->Read(before, [] {})) << "during"; });
  EXPECT_FALSE(mapped->Read(before, [] {})) << "after";
  const std::uint64_t now = content->sequence();
  EXPECT_FALSE(mapped->Read(now, [&] { content->Update([] {}); })) << "one came during the read";
  EXPECT_TRUE(mapped->Read(content->sequence(), [] {}));
}

TEST(SharedContentTest, MoreThanThereIsIsRefused) {
  EXPECT_TRUE(absl::IsResourceExhausted(SharedContent::Create(std::int64_t{1} << 46).status()));
}

TEST(SharedContentTest, AnotherSizeIsNotMapped) {
  const auto content = *SharedContent::Create(3);
  EXPECT_TRUE(absl::IsFailedPrecondition(SharedContent::Attach(content->locator(), 4).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(SharedContent::Attach("no locator", 3).status()));
}

}  // namespace
}  // namespace lockstep::train
