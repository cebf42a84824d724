#include "trainer/strategy/parameter_server/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <vector>

namespace lockstep::train {

static void PrintTo(const BatchTask& task, std::ostream* out) {
  *out << "step " << task.step << ", part " << task.part;
}

namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Task = std::optional<BatchTask>;

constexpr SteadyTime kStart{std::chrono::hours(1)};
constexpr LeaseBook::Worker kAnn = 1, kBob = 2, kCat = 3;
constexpr Task kNone = std::nullopt;

Task Of(std::int64_t step, int part = 0) {
  return BatchTask{step, part};
}

LeaseBookOptions Async(std::int64_t max_staleness = 16) {
  return {.max_staleness = max_staleness, .patience = std::chrono::minutes(1)};
}

LeaseBookOptions Sync(int parts, bool backups = false) {
  return {.sync = true, .parts = parts, .backups = backups, .patience = std::chrono::minutes(1)};
}

constexpr BatchTotals kTotals{.loss = 1, .examples = 2};

TEST(LeaseBookTest, AsyncGivesOutTheStepsInOrderUpToTheLimit) {
  LeaseBook book(Async(), 5, 8);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(5));
  EXPECT_EQ(book.Take(kBob, kStart), Of(6));
  EXPECT_EQ(book.Take(kCat, kStart), Of(7));
  EXPECT_TRUE(book.Done(kAnn, {5, 0}, kTotals));
  EXPECT_EQ(book.Take(kAnn, kStart), kNone);
}

TEST(LeaseBookTest, StepsCompleteInOrderWhateverTheOrderOfTheWorkers) {
  LeaseBook book(Async(), 0, 2);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  EXPECT_TRUE(book.Done(kBob, {1, 0}, {.loss = 11}));
  EXPECT_EQ(book.complete(), 0);
  EXPECT_THAT(book.TakeRecords(), IsEmpty());
  EXPECT_FALSE(book.IsPaused());
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, {.loss = 10}));
  EXPECT_EQ(book.complete(), 2);
  EXPECT_THAT(book.TakeRecords(), ElementsAre(BatchTotals{.loss = 10}, BatchTotals{.loss = 11}));
  EXPECT_THAT(book.TakeRecords(), IsEmpty());
  EXPECT_TRUE(book.IsPaused());
}

TEST(LeaseBookTest, ATaskCountsOnce) {
  LeaseBook book(Async(), 0, 9);
  book.Take(kAnn, kStart);
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, {.loss = 1}));
  EXPECT_FALSE(book.Done(kAnn, {0, 0}, {.loss = 100}));
  EXPECT_EQ(book.dropped(), 1);
  EXPECT_THAT(book.TakeRecords(), ElementsAre(BatchTotals{.loss = 1}));
}

TEST(LeaseBookTest, TheTaskOfAWorkerThatLeavesGoesToTheNextThatAsks) {
  LeaseBook book(Async(), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Leave(kAnn);
  EXPECT_EQ(book.Take(kCat, kStart), Of(0));
  EXPECT_EQ(book.Take(kBob, kStart), Of(2));
}

TEST(LeaseBookTest, ATaskGoesToTheNextThatAsksAfterThePatience) {
  LeaseBook book(Async(), 0, 9);
  const Duration patience = std::chrono::minutes(1);
  book.Take(kAnn, kStart);
  EXPECT_EQ(book.Take(kBob, kStart + patience - Duration(1)), Of(1));
  EXPECT_EQ(book.Take(kCat, kStart + patience), Of(0));
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, kTotals)) << "the first to be done counts";
  EXPECT_FALSE(book.Done(kCat, {0, 0}, kTotals));
}

TEST(LeaseBookTest, ALateTaskThatIsDoneAfterAllIsNotGivenOutAgain) {
  LeaseBook book(Async(), 0, 9);
  book.Take(kAnn, kStart);
  const SteadyTime late = kStart + std::chrono::minutes(2);
  EXPECT_EQ(book.Take(kBob, late), Of(0));
  EXPECT_EQ(book.Take(kCat, late + std::chrono::minutes(2)), Of(0));
  book.Leave(kCat);
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, kTotals));
  EXPECT_EQ(book.Take(kAnn, late), Of(1));
}

TEST(LeaseBookTest, AFastWorkerWaitsForTheSlowestOtherOne) {
  LeaseBook book(Async(/*max_staleness=*/2), 0, 100);
  ASSERT_EQ(book.Take(kAnn, kStart), Of(0));
  std::vector<BatchTask> taken;
  for (Task task = book.Take(kBob, kStart); task; task = book.Take(kBob, kStart)) {
    taken.push_back(*task);
    book.Done(kBob, *task, kTotals);
  }
  EXPECT_THAT(taken, ElementsAre(BatchTask{1}, BatchTask{2}, BatchTask{3}));
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, kTotals));
  EXPECT_EQ(book.Take(kBob, kStart), Of(4));
}

TEST(LeaseBookTest, WithoutStalenessAllWaitForAll) {
  LeaseBook book(Async(/*max_staleness=*/0), 0, 100);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(0));
  EXPECT_EQ(book.Take(kBob, kStart), Of(1));
  book.Done(kAnn, {0, 0}, kTotals);
  EXPECT_EQ(book.Take(kAnn, kStart), kNone);
  book.Done(kBob, {1, 0}, kTotals);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(2));
  EXPECT_EQ(book.Take(kBob, kStart), Of(3));
}

TEST(LeaseBookTest, NobodyWaitsForAWorkerThatHasLeft) {
  LeaseBook book(Async(/*max_staleness=*/0), 0, 100);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Done(kBob, {1, 0}, kTotals);
  ASSERT_EQ(book.Take(kBob, kStart), kNone);
  book.Leave(kAnn);
  EXPECT_EQ(book.Take(kBob, kStart), Of(0));
}

// Its stream ends in one thread while its last report is read in another.
TEST(LeaseBookTest, NobodyWaitsForAWorkerWhoseReportComesAfterItHasLeft) {
  LeaseBook book(Async(/*max_staleness=*/0), 0, 100);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Leave(kAnn);
  EXPECT_TRUE(book.Done(kAnn, {0, 0}, kTotals));
  book.Done(kBob, {1, 0}, kTotals);
  for (std::int64_t step = 2; step < 5; ++step) {
    ASSERT_EQ(book.Take(kBob, kStart), Of(step));
    book.Done(kBob, {step, 0}, kTotals);
  }
}

TEST(LeaseBookTest, NobodyWaitsForAWorkerThatIsLate) {
  LeaseBook book(Async(/*max_staleness=*/0), 0, 100);
  book.Take(kAnn, kStart);
  ASSERT_EQ(book.Take(kBob, kStart), Of(1));
  book.Done(kBob, {1, 0}, kTotals);
  ASSERT_EQ(book.Take(kBob, kStart), kNone);
  EXPECT_EQ(book.Take(kBob, kStart + std::chrono::minutes(1)), Of(0));
}

// After hours it would have thousands of tasks to do before anybody else might go on.
TEST(LeaseBookTest, ALateWorkerThatComesBackNeedNotCatchUp) {
  LeaseBook book(Async(/*max_staleness=*/2), 0, 100);
  const SteadyTime late = kStart + std::chrono::minutes(2);
  ASSERT_EQ(book.Take(kAnn, kStart), Of(0));
  for (int i = 0; i < 20; ++i) {
    const Task task = book.Take(kBob, late);
    ASSERT_NE(task, kNone);
    book.Done(kBob, *task, kTotals);
  }
  EXPECT_FALSE(book.Done(kAnn, {0, 0}, kTotals));
  EXPECT_EQ(book.Take(kBob, late), Of(20));
  EXPECT_EQ(book.Take(kAnn, late), Of(21));
}

TEST(LeaseBookTest, ANewcomerIsAsFarAsTheSlowest) {
  LeaseBook book(Async(/*max_staleness=*/2), 0, 100);
  for (std::int64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(book.Take(kAnn, kStart), Of(step));
    book.Done(kAnn, {step, 0}, kTotals);
  }
  EXPECT_EQ(book.Take(kBob, kStart), Of(20));
  EXPECT_EQ(book.Take(kAnn, kStart), Of(21)) << "need not wait for the newcomer";
}

// They would have to wait when they come back.
TEST(LeaseBookTest, ANewcomerIsAsFarAsTheFastestIfAllOthersAreLate) {
  LeaseBook book(Async(/*max_staleness=*/2), 0, 100);
  for (std::int64_t step = 0; step < 20; ++step) {
    ASSERT_EQ(book.Take(kAnn, kStart), Of(step));
    book.Done(kAnn, {step, 0}, kTotals);
  }
  ASSERT_EQ(book.Take(kAnn, kStart), Of(20));
  ASSERT_EQ(book.Take(kBob, kStart), Of(21));
  const SteadyTime late = kStart + std::chrono::minutes(2);
  EXPECT_EQ(book.Take(kCat, late), Of(20));
  EXPECT_TRUE(book.Done(kAnn, {20, 0}, kTotals));
  EXPECT_EQ(book.Take(kAnn, late), Of(21));
}

TEST(LeaseBookTest, AWorkerThatComesBackIsAsFarAsTheFastestIfAllOthersAreLate) {
  LeaseBook book(Async(/*max_staleness=*/2), 0, 100);
  ASSERT_EQ(book.Take(kBob, kStart), Of(0));
  const SteadyTime late = kStart + std::chrono::minutes(2), later = late + std::chrono::minutes(2);
  ASSERT_EQ(book.Take(kAnn, late), Of(0));
  book.Done(kAnn, {0, 0}, kTotals);
  for (std::int64_t step = 1; step < 20; ++step) {
    ASSERT_EQ(book.Take(kAnn, late), Of(step));
    book.Done(kAnn, {step, 0}, kTotals);
  }
  ASSERT_EQ(book.Take(kAnn, late), Of(20));
  ASSERT_EQ(book.Take(kCat, later), Of(20)) << "Ann is late, too";
  book.Leave(kCat);
  EXPECT_FALSE(book.Done(kBob, {0, 0}, kTotals));
  ASSERT_EQ(book.Take(kBob, later), Of(21));
  EXPECT_TRUE(book.Done(kAnn, {20, 0}, kTotals));
  EXPECT_EQ(book.Take(kAnn, later), Of(22));
}

TEST(LeaseBookTest, SyncBeginsAStepWhenTheOneBeforeIsComplete) {
  LeaseBook book(Sync(2), 0, 9);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(0, 0));
  EXPECT_EQ(book.Take(kBob, kStart), Of(0, 1));
  book.Done(kBob, {0, 1}, kTotals);
  EXPECT_EQ(book.Take(kBob, kStart), kNone);
  EXPECT_EQ(book.complete(), 0);
  book.Done(kAnn, {0, 0}, kTotals);
  EXPECT_EQ(book.complete(), 1);
  EXPECT_EQ(book.Take(kBob, kStart), Of(1, 0));
}

TEST(LeaseBookTest, SyncOneWorkerMayComputeAllParts) {
  LeaseBook book(Sync(2), 0, 1);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(0, 0));
  book.Done(kAnn, {0, 0}, kTotals);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(0, 1));
}

TEST(LeaseBookTest, AStepsTotalsAreSumsOverItsPartsAndTheLargestNorm) {
  LeaseBook book(Sync(2), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Done(kBob, {0, 1}, {.loss = 2, .correct = 3, .examples = 4, .hash = 5, .gradient_norm = 6});
  book.Done(kAnn, {0, 0}, {.loss = 8, .correct = 7, .examples = 6, .hash = 5, .gradient_norm = 4});
  EXPECT_THAT(book.TakeRecords(),
              ElementsAre(BatchTotals{
                  .loss = 10, .correct = 10, .examples = 10, .hash = 10, .gradient_norm = 6}));
  EXPECT_FALSE(book.LastSkipped());
}

TEST(LeaseBookTest, AStepIsSkippedIfOneOfItsPartsIs) {
  LeaseBook book(Sync(2), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Done(kAnn, {0, 0}, {.loss = 8, .correct = 7, .examples = 6});
  book.Done(kBob, {0, 1}, {.loss = 2, .correct = 3, .examples = 4, .skipped = true});
  EXPECT_TRUE(book.LastSkipped());
  EXPECT_THAT(book.TakeRecords(), ElementsAre(BatchTotals{.examples = 10, .skipped = true}));
  book.Done(kAnn, *book.Take(kAnn, kStart), kTotals);
  book.Done(kAnn, *book.Take(kAnn, kStart), kTotals);
  EXPECT_FALSE(book.LastSkipped());
}

TEST(LeaseBookTest, ABackupWorkerCopiesTheOldestTaskThatOneOtherComputes) {
  LeaseBook book(Sync(2, /*backups=*/true), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  EXPECT_EQ(book.Take(kCat, kStart), Of(0, 0));
  book.Done(kBob, {0, 1}, kTotals);
  EXPECT_EQ(book.Take(kBob, kStart), kNone) << "two compute it already";
  EXPECT_TRUE(book.Done(kCat, {0, 0}, {.loss = 7}));
  EXPECT_FALSE(book.Done(kAnn, {0, 0}, {.loss = 9}));
  EXPECT_EQ(book.dropped(), 1);
  EXPECT_EQ(book.complete(), 1);
}

TEST(LeaseBookTest, WithoutBackupsNobodyCopies) {
  LeaseBook book(Sync(2), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  EXPECT_EQ(book.Take(kCat, kStart), kNone);
}

TEST(LeaseBookTest, ATaskStaysWithItsCopyWhenItsFirstHolderLeaves) {
  LeaseBook book(Sync(1, /*backups=*/true), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.Leave(kAnn);
  EXPECT_EQ(book.Take(kBob, kStart), kNone);
  EXPECT_EQ(book.Take(kCat, kStart), Of(0)) << "a copy of Bob's";
}

TEST(LeaseBookTest, ALimitNowLetsWhatHasBegunBeDone) {
  LeaseBook book(Async(), 0, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.LimitNow();
  EXPECT_EQ(book.limit(), 2);
  EXPECT_EQ(book.Take(kCat, kStart), kNone);
  book.Leave(kBob);
  EXPECT_EQ(book.Take(kCat, kStart), Of(1)) << "it has begun";
  book.Done(kAnn, {0, 0}, kTotals);
  EXPECT_FALSE(book.IsPaused());
  book.Done(kCat, {1, 0}, kTotals);
  EXPECT_TRUE(book.IsPaused());
  book.SetLimit(4);
  EXPECT_FALSE(book.IsPaused());
  EXPECT_EQ(book.Take(kCat, kStart), Of(2));
}

// Nobody else may be here to compute the parts that are left, and they may take minutes.
TEST(LeaseBookTest, ALimitNowInSyncLetsTheStepThatHasBegunWait) {
  LeaseBook book(Sync(3), 4, 9);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(4, 0));
  EXPECT_EQ(book.Take(kBob, kStart), Of(4, 1));
  EXPECT_TRUE(book.Done(kAnn, {4, 0}, {.examples = 1}));
  book.LimitNow();
  EXPECT_TRUE(book.IsPaused());
  EXPECT_EQ(book.complete(), 4);
  EXPECT_EQ(book.Take(kAnn, kStart), kNone);
  EXPECT_TRUE(book.Done(kBob, {4, 1}, {.examples = 2})) << "it was under way";
  EXPECT_TRUE(book.IsPaused());
  book.SetLimit(9);
  EXPECT_FALSE(book.IsPaused());
  EXPECT_EQ(book.Take(kAnn, kStart), Of(4, 2)) << "the others are done";
  EXPECT_EQ(book.Take(kBob, kStart), kNone);
  EXPECT_TRUE(book.Done(kAnn, {4, 2}, {.examples = 4}));
  EXPECT_THAT(book.TakeRecords(), ElementsAre(BatchTotals{.examples = 7}));
}

TEST(LeaseBookTest, InSyncTheStepThatHasBegunMayBecomeCompleteAfterALimitNow) {
  LeaseBook book(Sync(2), 4, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.LimitNow();
  EXPECT_TRUE(book.Done(kBob, {4, 1}, kTotals));
  EXPECT_TRUE(book.Done(kAnn, {4, 0}, kTotals));
  EXPECT_EQ(book.complete(), 5);
  EXPECT_TRUE(book.IsPaused());
  EXPECT_EQ(book.Take(kAnn, kStart), kNone);
  book.SetLimit(9);
  EXPECT_EQ(book.Take(kAnn, kStart), Of(5, 0));
}

TEST(LeaseBookTest, ATaskThatIsLeftAfterALimitNowIsGivenOutLater) {
  LeaseBook book(Sync(2, /*backups=*/true), 4, 9);
  book.Take(kAnn, kStart);
  book.Take(kBob, kStart);
  book.LimitNow();
  EXPECT_EQ(book.Take(kCat, kStart), kNone) << "no copy, either";
  book.Leave(kBob);
  EXPECT_EQ(book.Take(kCat, kStart), kNone);
  book.SetLimit(9);
  EXPECT_EQ(book.Take(kCat, kStart), Of(4, 1));
}

// Whoever comes, goes and is late, and whenever the run pauses.
TEST(LeaseBookTest, EachPartOfEachStepCountsOnceHoweverOftenTheRunPauses) {
  constexpr int kParts = 3, kSteps = 40;
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    LeaseBook book(Sync(kParts, /*backups=*/seed % 2 == 1), 0, 1);
    std::map<LeaseBook::Worker, BatchTask> held;
    std::vector<BatchTotals> records;
    for (SteadyTime now = kStart; book.complete() < kSteps; now += std::chrono::seconds(1)) {
      const auto worker = static_cast<LeaseBook::Worker>(1 + random() % 4);
      const unsigned event = random() % 16;
      if (event == 0) book.LimitNow();
      if (event == 1) {
        held.erase(worker);
        book.Leave(worker);
      }
      if (event == 2) now += std::chrono::minutes(2);
      if (book.IsPaused() && event < 8) book.SetLimit(book.complete() + 1 + random() % 5);
      if (const auto task = held.extract(worker)) {
        const std::uint64_t part = std::uint64_t{1} << (8 * task.mapped().part);
        book.Done(worker, task.mapped(), {.examples = 1, .hash = part});
      } else if (const Task next = book.Take(worker, now)) {
        EXPECT_LT(next->step, book.limit());
        held[worker] = *next;
      }
      for (const BatchTotals& record : book.TakeRecords()) records.push_back(record);
    }
    EXPECT_EQ(std::ssize(records), book.complete()) << "seed " << seed;
    EXPECT_THAT(records, Each(BatchTotals{.examples = kParts, .hash = 0x010101}));
  }
}

TEST(LeaseBookTest, ABookWithNothingToDoIsPaused) {
  LeaseBook book(Async(), 7, 3);
  EXPECT_TRUE(book.IsPaused());
  EXPECT_EQ(book.complete(), 7);
  EXPECT_EQ(book.Take(kAnn, kStart), kNone);
}

TEST(LeaseBookTest, ATaskThatNobodyWasGivenCannotBeDone) {
  LeaseBook book(Sync(2), 0, 9);
  book.Take(kAnn, kStart);
  EXPECT_ANY_THROW(book.Done(kAnn, {1, 0}, kTotals));
  EXPECT_ANY_THROW(book.Done(kAnn, {0, 2}, kTotals));
}

}  // namespace
}  // namespace lockstep::train
