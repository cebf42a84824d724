#include "trainer/observe/ledger.h"

#include <gtest/gtest.h>

#include "trainer/data/sample_hash.h"

namespace lockstep::train {
namespace {

Ledger WithSamples(std::int64_t begin, std::int64_t end) {
  Ledger ledger;
  for (std::int64_t i = begin; i < end; ++i) ledger.Add(1, SampleHash(i));
  return ledger;
}

TEST(LedgerTest, EpochWithEverySampleOnceIsExact) {
  Ledger ledger = WithSamples(0, 100);
  EXPECT_EQ(ledger.Check(100), Ledger::Verdict{});
  EXPECT_EQ(ledger.epochs_checked(), 1);
  EXPECT_EQ(ledger.count(), 0);
  EXPECT_EQ(ledger.hash_sum(), 0u);
}

TEST(LedgerTest, LostAndDuplicatedSamplesAreCounted) {
  Ledger ledger = WithSamples(0, 97);
  EXPECT_EQ(ledger.Check(100), (Ledger::Verdict{3, 0}));
  for (std::int64_t i = 0; i < 100; ++i) ledger.Add(1, SampleHash(i));
  ledger.Add(2, SampleHash(4) + SampleHash(5));
  EXPECT_EQ(ledger.Check(100), (Ledger::Verdict{0, 2}));
  EXPECT_EQ(ledger.lost_total(), 3);
  EXPECT_EQ(ledger.duplicated_total(), 2);
}

TEST(LedgerTest, RightCountWithAWrongSampleIsFoundByTheHash) {
  Ledger ledger = WithSamples(1, 100);
  ledger.Add(1, SampleHash(50));  // again, in place of sample 0
  EXPECT_EQ(ledger.Check(100), (Ledger::Verdict{1, 1}));
}

TEST(LedgerTest, GoesOnFromItsIntegers) {
  Ledger before = WithSamples(0, 40);
  const auto restored = Ledger::FromIntegers(before.ToIntegers());
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(*restored, before);
  Ledger after = *restored;
  for (std::int64_t i = 40; i < 100; ++i) after.Add(1, SampleHash(i));
  EXPECT_EQ(after.Check(100), Ledger::Verdict{});
}

TEST(LedgerTest, NegativeCountsAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Ledger::FromIntegers({-1, 0, 0, 0, 0}).status()));
  EXPECT_TRUE(Ledger::FromIntegers({1, -1, 0, 0, 0}).ok());  // a hash is any 64 bits
}

}  // namespace
}  // namespace lockstep::train
