// The simulated driver's rules of stream capture, which are those of the "CUDA C++ Programming
// Guide". A violation that the simulator let pass would show only on a GPU.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/cuda/device/device.h"

namespace lockstep::train::cuda {
namespace {

constexpr int kUnsupported = 900, kInvalidated = 901, kMerge = 902, kUnmatched = 903,
              kUnjoined = 904, kIsolation = 905, kCapturedEvent = 907, kWrongThread = 908;
constexpr int kIllegalState = 401;
constexpr int kGlobal = 0, kRelaxed = 2;

class CaptureRulesTest : public ::testing::Test {
 protected:
  CaptureRulesTest() {
    for (StreamHandle* stream : {&first_, &second_}) {
      EXPECT_EQ(driver_.StreamCreate(stream, kStreamNonBlocking), kSuccess);
    }
    for (EventHandle* event : {&event_, &joined_}) {
      EXPECT_EQ(driver_.EventCreate(event, kEventDisableTiming), kSuccess);
    }
    EXPECT_EQ(driver_.MemAlloc(&memory_, 4), kSuccess);
    EXPECT_EQ(driver_.MemHostAlloc(&pinned_, 4, 0), kSuccess);
  }
  ~CaptureRulesTest() override {
    for (StreamHandle stream : {first_, second_}) driver_.StreamDestroy(stream);
    for (EventHandle event : {event_, joined_}) driver_.EventDestroy(event);
    driver_.MemFree(memory_);
    driver_.MemFreeHost(pinned_);
  }

  void Begin(StreamHandle stream, int mode = kCaptureThreadLocal) {
    ASSERT_EQ(driver_.StreamBeginCapture(stream, mode), kSuccess);
  }
  int Set(StreamHandle stream, unsigned char value) {
    return driver_.MemsetD8Async(memory_, value, 1, stream);
  }
  // The capture's end; a graph is there if and only if it is a success.
  int End(StreamHandle stream) {
    const int result = driver_.StreamEndCapture(stream, &graph_);
    EXPECT_EQ(graph_ != nullptr, result == kSuccess);
    return result;
  }
  // What the memory holds once the graph has run.
  int Launch() {
    GraphExecHandle exec = nullptr;
    EXPECT_EQ(driver_.GraphInstantiate(&exec, graph_, 0), kSuccess);
    EXPECT_EQ(driver_.GraphDestroy(graph_), kSuccess);
    EXPECT_EQ(driver_.GraphLaunch(exec, first_), kSuccess);
    EXPECT_EQ(driver_.GraphExecDestroy(exec), kSuccess);
    return Value();
  }
  int Value() {
    unsigned char value = 0;
    EXPECT_EQ(driver_.MemcpyDtoHAsync(&value, memory_, 1, first_), kSuccess);
    return value;
  }

  const Device device_{0, /*rounds_to_tf32=*/false};
  const DriverApi& driver_ = device_.driver();
  StreamHandle first_ = nullptr, second_ = nullptr;
  EventHandle event_ = nullptr, joined_ = nullptr;
  DeviceAddress memory_ = 0;
  void* pinned_ = nullptr;
  GraphHandle graph_ = nullptr;
};

TEST_F(CaptureRulesTest, WorkRunsWhenTheGraphIsLaunched) {
  EXPECT_EQ(Set(first_, 1), kSuccess);
  Begin(first_);
  EXPECT_EQ(Set(first_, 2), kSuccess);
  EXPECT_EQ(End(first_), kSuccess);
  EXPECT_EQ(Value(), 1);
  EXPECT_EQ(Launch(), 2);
}

TEST_F(CaptureRulesTest, EventsForkAndJoin) {
  Begin(first_);
  EXPECT_EQ(Set(first_, 1), kSuccess);
  EXPECT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(second_, event_, 0), kSuccess);
  EXPECT_EQ(Set(second_, 2), kSuccess);
  EXPECT_EQ(driver_.EventRecord(joined_, second_), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(first_, joined_, 0), kSuccess);
  EXPECT_EQ(Set(first_, 3), kSuccess);
  EXPECT_EQ(End(first_), kSuccess);
  EXPECT_EQ(Launch(), 3);
  EXPECT_EQ(Set(second_, 4), kSuccess) << "the second is no longer captured";
  EXPECT_EQ(driver_.StreamSynchronize(second_), kSuccess);
  EXPECT_EQ(Value(), 4);
}

// Where nothing orders two nodes, the simulator runs them in another order than the calls'.
TEST_F(CaptureRulesTest, WithoutAnEdgeTheOrderIsAnother) {
  Begin(first_);
  EXPECT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  EXPECT_EQ(Set(first_, 1), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(second_, event_, 0), kSuccess);
  EXPECT_EQ(Set(second_, 2), kSuccess);
  EXPECT_EQ(driver_.EventRecord(joined_, second_), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(first_, joined_, 0), kSuccess);
  EXPECT_EQ(End(first_), kSuccess);
  EXPECT_EQ(Launch(), 1);
}

TEST_F(CaptureRulesTest, AForkMustBeJoined) {
  Begin(first_);
  EXPECT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(second_, event_, 0), kSuccess);
  EXPECT_EQ(Set(second_, 2), kSuccess);
  EXPECT_EQ(End(first_), kUnjoined);
  EXPECT_EQ(Set(second_, 3), kSuccess);
}

TEST_F(CaptureRulesTest, AViolationInvalidatesTheCapture) {
  DeviceAddress other = 0;
  void* other_pinned = nullptr;
  ASSERT_EQ(driver_.EventRecord(event_, second_), kSuccess);
  const std::vector<std::function<int()>> violations = {
      [&] { return driver_.StreamSynchronize(first_); },
      [&] { return driver_.StreamSynchronize(second_); },
      [&] { return driver_.EventQuery(event_); },
      [&] { return driver_.EventSynchronize(event_); },
      [&] { return driver_.MemAlloc(&other, 4); },
      [&] { return driver_.MemFree(memory_); },
      [&] { return driver_.MemHostAlloc(&other_pinned, 4, 0); },
      [&] { return driver_.MemFreeHost(pinned_); },
  };
  for (const auto& violation : violations) {
    Begin(first_);
    EXPECT_EQ(violation(), kUnsupported);
    EXPECT_EQ(Set(first_, 1), kInvalidated);
    EXPECT_EQ(driver_.EventRecord(joined_, first_), kInvalidated);
    EXPECT_EQ(End(first_), kInvalidated);
    EXPECT_EQ(Set(first_, 1), kSuccess) << "the capture has ended";
  }
}

TEST_F(CaptureRulesTest, CopiesFromAndToPageableMemoryAreRefused) {
  unsigned char pageable = 5;
  Begin(first_);
  EXPECT_EQ(driver_.MemcpyHtoDAsync(memory_, &pageable, 1, first_), kUnsupported);
  EXPECT_EQ(End(first_), kInvalidated);
  Begin(first_);
  EXPECT_EQ(driver_.MemcpyDtoHAsync(&pageable, memory_, 1, first_), kUnsupported);
  EXPECT_EQ(End(first_), kInvalidated);
}

TEST_F(CaptureRulesTest, ACopyFromPageLockedMemoryReadsItAtTheLaunch) {
  auto* value = static_cast<unsigned char*>(pinned_);
  *value = 5;
  Begin(first_);
  EXPECT_EQ(driver_.MemcpyHtoDAsync(memory_, pinned_, 1, first_), kSuccess);
  EXPECT_EQ(End(first_), kSuccess);
  *value = 6;
  EXPECT_EQ(Launch(), 6);
}

TEST_F(CaptureRulesTest, EventsDoNotCrossTheEdgeOfACapture) {
  ASSERT_EQ(driver_.EventRecord(event_, second_), kSuccess);
  Begin(first_);
  EXPECT_EQ(driver_.StreamWaitEvent(first_, event_, 0), kIsolation);
  EXPECT_EQ(End(first_), kInvalidated);

  Begin(first_, kRelaxed);
  ASSERT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  EXPECT_EQ(driver_.EventQuery(event_), kCapturedEvent);
  EXPECT_EQ(End(first_), kInvalidated);
}

TEST_F(CaptureRulesTest, TwoCapturesDoNotMerge) {
  Begin(first_);
  Begin(second_);
  ASSERT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  EXPECT_EQ(driver_.StreamWaitEvent(second_, event_, 0), kMerge);
  EXPECT_EQ(End(first_), kInvalidated);
  EXPECT_EQ(End(second_), kInvalidated);
}

TEST_F(CaptureRulesTest, ItEndsWhereItBegan) {
  EXPECT_EQ(End(first_), kIllegalState);
  EXPECT_EQ(driver_.StreamBeginCapture(nullptr, kCaptureThreadLocal), kUnsupported);
  Begin(first_);
  EXPECT_EQ(driver_.StreamBeginCapture(first_, kCaptureThreadLocal), kIllegalState);
  std::thread([&] {
    device_.driver();
    EXPECT_EQ(End(first_), kWrongThread);
  }).join();
  ASSERT_EQ(driver_.EventRecord(event_, first_), kSuccess);
  ASSERT_EQ(driver_.StreamWaitEvent(second_, event_, 0), kSuccess);
  EXPECT_EQ(End(second_), kUnmatched);
  EXPECT_EQ(End(first_), kInvalidated);
}

// Whom a capture forbids to allocate memory.
TEST_F(CaptureRulesTest, TheModeSaysWhomItConcerns) {
  const auto allocate = [&] {
    device_.driver();
    DeviceAddress memory = 0;
    const int result = driver_.MemAlloc(&memory, 4);
    if (result == kSuccess) driver_.MemFree(memory);
    return result;
  };
  const auto allocate_elsewhere = [&] {
    int result = 0;
    std::thread([&] { result = allocate(); }).join();
    return result;
  };
  Begin(first_, kGlobal);
  EXPECT_EQ(allocate_elsewhere(), kUnsupported);
  EXPECT_EQ(End(first_), kInvalidated);
  Begin(first_, kCaptureThreadLocal);
  EXPECT_EQ(allocate_elsewhere(), kSuccess);
  EXPECT_EQ(allocate(), kUnsupported);
  EXPECT_EQ(End(first_), kInvalidated);
  Begin(first_, kRelaxed);
  EXPECT_EQ(allocate(), kSuccess);
  EXPECT_EQ(End(first_), kSuccess);
  EXPECT_EQ(driver_.GraphDestroy(graph_), kSuccess);
}

}  // namespace
}  // namespace lockstep::train::cuda
