// What NCCL does at times that neither the simulator nor a test can choose: here it is a table of
// the test's own functions.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "tests/trainer/comm/nccl/gpu_rank.h"
#include "trainer/comm/nccl/nccl_communicator.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr int kRemoteError = 6;

// What the functions do and have seen.
struct Script {
  std::atomic<int> async_result = nccl::kSuccess;
  std::atomic<bool> sum_lingers = false, is_in_sum = false;
  std::atomic<bool> abort_hangs = false;
  std::atomic<bool> was_in_sum_at_abort = false, was_failure_known_at_abort = false;
  std::atomic<int> sums = 0, aborts = 0;
  std::atomic<NcclCommunicator*> communicator = nullptr;
};
Script* script = nullptr;

nccl::Api ScriptedApi() {
  nccl::Api api;
  api.CommInitRankConfig = [](nccl::CommHandle* comm, int, nccl::UniqueId, int, nccl::Config*) {
    *comm = reinterpret_cast<nccl::CommHandle>(script);
    return nccl::kSuccess;
  };
  api.CommGetAsyncError = [](nccl::CommHandle, int* result) {
    *result = script->async_result;
    return nccl::kSuccess;
  };
  api.CommAbort = [](nccl::CommHandle) {
    script->was_in_sum_at_abort = script->is_in_sum.load();
    const NcclCommunicator* communicator = script->communicator;
    script->was_failure_known_at_abort = communicator != nullptr && !communicator->status().ok();
    while (script->abort_hangs) std::this_thread::sleep_for(1ms);
    ++script->aborts;  // last: the test waits for it
    return nccl::kSuccess;
  };
  api.AllReduce = [](const void*, void*, std::size_t, int, int, nccl::CommHandle,
                     nccl::StreamHandle) {
    ++script->sums;
    script->is_in_sum = true;
    while (script->sum_lingers) std::this_thread::yield();
    script->is_in_sum = false;
    return nccl::kSuccess;
  };
  api.GetErrorString = [](int) { return "remote process exited or there was a network error"; };
  api.GetLastError = [](nccl::CommHandle) { return "the connection is closed"; };
  return api;
}

class NcclFaultsTest : public ::testing::Test {
 protected:
  NcclFaultsTest() {
    script = &script_;
    communicator_ = *NcclCommunicator::Create(api_, {.rank = 0, .size = 2}, *gpu_.stream);
    script_.communicator = communicator_.get();
  }
  void EnqueueSum() {
    communicator_->EnqueueAllReduceSum(gpu_.memory.data(), 1, DType::kFloat32, *gpu_.stream);
    communicator_->EnqueueStatus(gpu_.ok_word(), *gpu_.stream);
  }
  void AwaitAbort() const {
    while (script_.aborts == 0) std::this_thread::yield();
  }

  Script script_;
  const nccl::Api api_ = ScriptedApi();
  GpuRank gpu_{0, {1}};
  std::unique_ptr<NcclCommunicator> communicator_;
};

TEST_F(NcclFaultsTest, ItIsNotAbortedWhileAThreadIsInOneOfItsFunctions) {
  script_.sum_lingers = true;
  std::jthread enqueues([&] { EnqueueSum(); });
  while (!script_.is_in_sum) std::this_thread::yield();
  communicator_->Abort();
  std::this_thread::sleep_for(20ms);  // for an abort that does not wait
  EXPECT_EQ(script_.aborts, 0);
  script_.sum_lingers = false;
  AwaitAbort();
  EXPECT_FALSE(script_.was_in_sum_at_abort);
  enqueues.join();
  EXPECT_FALSE(gpu_.IsOk());
}

// The peers would wait for a process that looks alive, and its own end for the GPU.
TEST(NcclHangTest, AnAbortThatHangsEndsTheProcessSoThatAnotherTakesItsPlace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool hangs_in_sum : {false, true}) {
    EXPECT_EXIT(
        {
          Script own;
          script = &own;
          own.abort_hangs = !hangs_in_sum;
          own.sum_lingers = hangs_in_sum;
          const nccl::Api api = ScriptedApi();
          const GpuRank gpu(0, {1});
          auto communicator = *NcclCommunicator::Create(
              api, {.rank = 0, .size = 2, .abort_limit = 50ms}, *gpu.stream);
          if (!hangs_in_sum) communicator.reset();
          std::jthread aborts([&] {
            while (!own.is_in_sum) std::this_thread::sleep_for(1ms);
            communicator->Abort();
          });
          communicator->EnqueueAllReduceSum(gpu.memory.data(), 1, DType::kFloat32, *gpu.stream);
        },
        ::testing::ExitedWithCode(210), "ncclCommAbort has not returned within 0.05 s");
  }
}

TEST_F(NcclFaultsTest, TheFailureIsKnownBeforeAKernelCanGiveUp) {
  communicator_->Abort();
  AwaitAbort();
  EXPECT_TRUE(script_.was_failure_known_at_abort);
  EnqueueSum();
  EXPECT_EQ(script_.sums, 0) << "the communicator is gone";
  EXPECT_FALSE(gpu_.IsOk());
  communicator_.reset();
  EXPECT_EQ(script_.aborts, 1);
}

TEST_F(NcclFaultsTest, AnErrorThatItReportsLaterEndsTheGroup) {
  EnqueueSum();
  EXPECT_TRUE(gpu_.IsOk());
  script_.async_result = kRemoteError;
  AwaitAbort();
  EXPECT_TRUE(script_.was_failure_known_at_abort);
  EXPECT_EQ(communicator_->status(),
            absl::UnavailableError("nccl: a collective or a connection failed with 6: remote "
                                   "process exited or there was a network error: the connection "
                                   "is closed"));
  EnqueueSum();
  EXPECT_FALSE(gpu_.IsOk());
}

TEST_F(NcclFaultsTest, ACollectiveThatItRefusesIsAFailure) {
  script_.async_result = nccl::kSuccess;
  const nccl::Api api = [] {
    nccl::Api refusing = ScriptedApi();
    refusing.AllReduce = [](const void*, void*, std::size_t, int, int, nccl::CommHandle,
                            nccl::StreamHandle) { return kRemoteError; };
    return refusing;
  }();
  const auto communicator = *NcclCommunicator::Create(api, {.rank = 0, .size = 2}, *gpu_.stream);
  communicator->EnqueueAllReduceSum(gpu_.memory.data(), 1, DType::kFloat32, *gpu_.stream);
  communicator->EnqueueStatus(gpu_.ok_word(), *gpu_.stream);
  EXPECT_FALSE(gpu_.IsOk());
  EXPECT_EQ(communicator->status(),
            absl::UnavailableError("nccl: ncclAllReduce failed with 6: remote process exited or "
                                   "there was a network error: the connection is closed"));
}

// One deadline for the connections that NCCL makes at once and those that it makes on demand.
TEST_F(NcclFaultsTest, TheFirstSumsHaveWhatIsLeftOfTheTimeToConnect) {
  static constexpr auto kTimeout = 50ms;
  const nccl::Api api = [] {
    nccl::Api slow = ScriptedApi();
    slow.CommInitRankConfig = [](nccl::CommHandle* comm, int, nccl::UniqueId, int, nccl::Config*) {
      std::this_thread::sleep_for(kTimeout);
      *comm = reinterpret_cast<nccl::CommHandle>(script);
      return nccl::kSuccess;
    };
    // Done at the next look.
    slow.AllReduce = [](const void*, void*, std::size_t, int, int, nccl::CommHandle,
                        nccl::StreamHandle) { return nccl::kInProgress; };
    return slow;
  }();
  const auto communicator = *NcclCommunicator::Create(
      api, {.rank = 0, .size = 2, .connect_timeout = kTimeout}, *gpu_.stream);
  const GradientReducer::Bucket all{0, 1};
  EXPECT_EQ(communicator->Try(gpu_.memory.data(), {&all, 1}, *gpu_.stream),
            absl::UnavailableError("nccl: ncclAllReduce was not done within 0.05 s: a rank is lost "
                                   "or late"));
}

}  // namespace
}  // namespace lockstep::train
