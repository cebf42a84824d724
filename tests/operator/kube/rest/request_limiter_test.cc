#include "operator/kube/rest/request_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RequestLimiterTest, SoManyAtATimeAndNoMore) {
  RequestLimiter limiter(0, 0, 2);
  std::atomic<int> inside{0}, most{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        const RequestLimiter::Slot slot(limiter);
        const int now = ++inside;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        --inside;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
  EXPECT_EQ(inside, 0);
}

TEST(ByteBudgetTest, NoMoreIsLentThanThereIs) {
  ByteBudget budget(10);
  std::atomic<int> lent{0}, most{0};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, size = 1 + i] {
      for (int n = 0; n < 200; ++n) {
        const ByteBudget::Share share(budget, static_cast<std::size_t>(size));
        const int now = lent += size;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::yield();
        lent -= size;
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 10);
  EXPECT_EQ(lent, 0);
}

TEST(ByteBudgetTest, WhoAsksForMoreThanThereIsHoldsEverything) {
  ByteBudget budget(10);
  std::atomic<bool> has_more{false};
  std::jthread other;
  {
    const ByteBudget::Share all(budget, 11);
    other = std::jthread([&] {
      const ByteBudget::Share more(budget, 1);
      has_more = true;
    });
    EXPECT_FALSE(has_more);
  }
  other.join();
  EXPECT_TRUE(has_more);
}

TEST(ByteBudgetTest, WhoGivesUpLetsTheNextOneThrough) {
  ByteBudget budget(10);
  const ByteBudget::Share some(budget, 8);
  std::atomic<bool> has_rest{false};
  {
    // Two who want more than is free, and behind them one who wants what is free.
    std::vector<std::jthread> waiting;
    std::atomic<int> given_up{0};
    for (int i = 0; i < 2; ++i) {
      waiting.emplace_back([&] {
        const ByteBudget::Share more(budget, 5,
                                     std::chrono::steady_clock::now() + milliseconds(100));
        if (!more.is_held()) ++given_up;
      });
    }
    std::this_thread::sleep_for(milliseconds(20));
    const ByteBudget::Share rest(budget, 2, std::chrono::steady_clock::now() + seconds(10));
    has_rest = rest.is_held();
    waiting.clear();
    EXPECT_EQ(given_up, 2);
  }
  EXPECT_TRUE(has_rest);
  const ByteBudget::Share again(budget, 2, std::chrono::steady_clock::now());
  EXPECT_TRUE(again.is_held()) << "what was given up holds nothing";
}

}  // namespace
}  // namespace lockstep::kube
