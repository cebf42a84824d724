#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

TEST(ThreadPoolTest, CallsEachIndexOnceAndReturnsTheErrorOfTheLowest) {
  ThreadPool pool(3);
  for (const std::size_t count : {0, 1, 2, 7, 500}) {
    std::vector<std::atomic<int>> calls(count);
    const absl::Status status = pool.ForEach(count, 4, [&calls](std::size_t i) {
      ++calls[i];
      return i == 3 || i == 5 ? absl::NotFoundError(std::to_string(i)) : absl::OkStatus();
    });
    for (const std::atomic<int>& called : calls) EXPECT_EQ(called, 1);
    EXPECT_EQ(status, count > 3 ? absl::NotFoundError("3") : absl::OkStatus()) << count;
  }
}

TEST(ThreadPoolTest, VisitsEachIndexOnce) {
  std::vector<std::atomic<int>> visits(50);
  ThreadPool(3).VisitEach(visits.size(), 4, [&visits](std::size_t i) { ++visits[i]; });
  for (const std::atomic<int>& visited : visits) EXPECT_EQ(visited, 1);
}

TEST(ThreadPoolTest, WorksAsManyAtATimeAsAskedFor) {
  ThreadPool pool(8);
  for (int round = 0; round < 3; ++round) {  // the first makes the threads
    std::latch together(4);                  // nobody passes alone
    std::atomic<int> now{0}, most{0};
    const auto work = [&](std::size_t i) {
      const int running = ++now;
      for (int seen = most; seen < running && !most.compare_exchange_weak(seen, running);) {
      }
      if (i < 4) together.arrive_and_wait();
      --now;
      return absl::OkStatus();
    };
    EXPECT_TRUE(pool.ForEach(40, 4, work).ok());
    EXPECT_EQ(most, 4);
  }
}

TEST(ThreadPoolTest, TheCallerDoesAllWhereNobodyHelps) {
  ThreadPool nobody(0);
  const auto caller = std::this_thread::get_id();
  EXPECT_TRUE(nobody
                  .ForEach(9, 8,
                           [caller](std::size_t) {
                             EXPECT_EQ(std::this_thread::get_id(), caller);
                             return absl::OkStatus();
                           })
                  .ok());
}

TEST(ThreadPoolTest, BusyThreadsStopNobody) {
  ThreadPool pool(1);
  std::latch busy(2), others_done(1);
  std::jthread occupant([&] {
    const auto occupy = [&](std::size_t) {  // the caller and the only helper
      busy.arrive_and_wait();
      others_done.wait();
      return absl::OkStatus();
    };
    EXPECT_TRUE(pool.ForEach(2, 2, occupy).ok());
  });
  busy.wait();
  std::atomic<int> calls{0};
  const auto count = [&calls](std::size_t) {
    ++calls;
    return absl::OkStatus();
  };
  EXPECT_TRUE(pool.ForEach(20, 8, count).ok());
  EXPECT_EQ(calls, 20);
  others_done.count_down();
}

TEST(ThreadPoolTest, ThrowsWhatIsThrownOnceAllIsDone) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  const auto work = [&calls](std::size_t i) -> absl::Status {
    ++calls;
    if (i == 2) throw std::runtime_error("2");
    return absl::OkStatus();
  };
  EXPECT_THROW(static_cast<void>(pool.ForEach(6, 3, work)), std::runtime_error);
  EXPECT_EQ(calls, 6);
}

TEST(ThreadPoolTest, ServesManyCallers) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  {
    std::vector<std::jthread> callers;
    for (int c = 0; c < 6; ++c) {
      callers.emplace_back([&] {
        for (int i = 0; i < 200; ++i) {
          const auto work = [&calls](std::size_t) {
            ++calls;
            return absl::OkStatus();
          };
          EXPECT_TRUE(pool.ForEach(5, 5, work).ok());
        }
      });
    }
  }
  EXPECT_EQ(calls, 6 * 200 * 5);
}

}  // namespace
}  // namespace lockstep
