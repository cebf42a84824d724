// The GPU's memory and streams, on the simulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cuda/device/device.h"
#include "trainer/backend/device_missing.h"
#include "trainer/check/device_array.h"

namespace lockstep::train {
namespace {

class CudaStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cuda"});
};

TEST_F(CudaStreamTest, TheDeviceSaysWhatItIs) {
  EXPECT_EQ(backend_->Device(), "cuda:simulated (compute capability 9.0)");
}

// No restart changes that, so it is not the error of a device that may come back.
TEST(CudaDeviceTest, WhereNoGpuIsVisibleItIsMissing) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string before = visible == nullptr ? "" : visible;
  ::setenv("CUDA_VISIBLE_DEVICES", "", /*overwrite=*/1);
  EXPECT_THROW(cuda::Device(0, /*rounds_to_tf32=*/false), DeviceMissing);
  if (visible == nullptr) {
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  } else {
    ::setenv("CUDA_VISIBLE_DEVICES", before.c_str(), /*overwrite=*/1);
  }
}

// The libraries would only say that they are not initialized, which seems to pass.
TEST(CudaDeviceTest, ADriverThatIsTooOldIsNamed) {
  ::setenv("CUDA_SIM_DRIVER", "12080", /*overwrite=*/1);
  std::string refusal;
  try {
    const cuda::Device device(0, /*rounds_to_tf32=*/false);
  } catch (const DeviceMissing& error) {
    refusal = error.what();
  }
  ::unsetenv("CUDA_SIM_DRIVER");
  EXPECT_THAT(refusal,
              ::testing::HasSubstr("for CUDA 12.8, expected one for CUDA 13 (580 or later), "
                                   "to which "));
}

TEST_F(CudaStreamTest, MemoryIsZeroAndTheHostCannotReadIt) {
  DeviceArray<float> values(*backend_, {1, 2, 3});
  EXPECT_EQ(values.Values(), (std::vector<float>{1, 2, 3}));
  EXPECT_DEATH(
      {
        volatile float read = *values.data();
        (void)read;
      },
      "");
}

TEST_F(CudaStreamTest, MoreThanThereIsIsRefusedWithWhatThereIs) {
  try {
    backend_->memory().Allocate(std::size_t{1} << 40);
    FAIL() << "a terabyte was allocated";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "back end cuda: 1099511627776 bytes are needed, and 8589934592 of 8589934592 are "
                 "free on simulated");
  }
}

// Work of two streams, ordered by an event alone.
TEST_F(CudaStreamTest, AStreamWaitsForAnEventOfAnother) {
  DeviceArray<float> value(*backend_, {1});
  const std::unique_ptr<Stream> other = backend_->MakeStream();
  std::atomic<bool> may_go = false;
  backend_->stream().Call([&] {
    while (!may_go) std::this_thread::yield();
  });
  backend_->Scale(value.data(), value.data(), 1, 5);
  other->Wait(backend_->stream().Record());
  bool was_ahead = true;
  other->Call([&] { was_ahead = !may_go; });
  // Time for the other stream to run ahead, if it does not wait.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_go = true;
  float seen = 0;
  other->Download(value.data(), &seen, sizeof(seen));
  other->Record()->Wait();
  EXPECT_EQ(seen, 5);
  EXPECT_FALSE(was_ahead);
}

// What a call before it in the stream has left there, as sums over ranks do.
TEST_F(CudaStreamTest, AnUploadReadsTheHostsMemoryWhenItRuns) {
  DeviceArray<float> value(*backend_, {1});
  const std::unique_ptr<Stream> stream = backend_->MakeStream();
  std::atomic<bool> may_go = false;
  float host = 2;
  stream->Wait(backend_->stream().Record());
  stream->Call([&] {
    while (!may_go) std::this_thread::yield();
    host = 3;
  });
  stream->Upload(&host, value.data(), sizeof(host));
  float seen = 0;
  stream->Download(value.data(), &seen, sizeof(seen));
  EXPECT_EQ(seen, 0) << "neither call waits";
  may_go = true;
  stream->Record()->Wait();
  EXPECT_EQ(seen, 3);
}

// Samples have a stream of their own for their copies; the ops read each before the next takes its
// place.
TEST_F(CudaStreamTest, SamplesOfStepsThatWaitAreNotOverwritten) {
  constexpr std::int64_t kSize = 5000;
  const InputScaling as_they_are{.factor = {1}};
  std::deque<DeviceArray<float>> inputs;
  for (int step = 0; step < 5; ++step) inputs.emplace_back(*backend_, std::vector<float>(kSize));
  std::vector<std::uint8_t> samples(kSize);
  // What the others take in turns is there, so that no call waits for memory.
  for (const auto& input : {&inputs[0], &inputs[1]}) {
    backend_->ConvertInput(samples.data(), input->data(), kSize, as_they_are);
  }
  std::atomic<bool> may_go = false;
  backend_->stream().Call([&] {
    while (!may_go) std::this_thread::yield();
  });
  for (int step = 0; step < 5; ++step) {
    std::ranges::fill(samples, static_cast<std::uint8_t>(step + 1));
    backend_->ConvertInput(samples.data(), inputs[static_cast<std::size_t>(step)].data(), kSize,
                           as_they_are);
  }
  // Time for copies to run ahead, if they do not wait.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  may_go = true;
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(inputs[static_cast<std::size_t>(step)].Values(),
              std::vector<float>(kSize, static_cast<float>(step + 1)));
  }
}

TEST_F(CudaStreamTest, AFailingCallIsFoundByWhoeverWaits) {
  const auto wait = [this] {
    // It may find the error itself, if the call is over by then.
    backend_->stream().Call([] { throw std::runtime_error("the peer is gone"); });
    backend_->stream().Record()->Wait();
    backend_->Synchronize();
  };
  try {
    wait();
    FAIL() << "no error was found";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(), "back end cuda: a call from a stream failed: the peer is gone");
  }
}

TEST_F(CudaStreamTest, OtherThreadsUseTheDeviceToo) {
  DeviceArray<float> value(*backend_, {3});
  float seen = 0;
  std::thread([&] {
    const std::unique_ptr<Stream> stream = backend_->MakeStream();
    stream->Wait(backend_->stream().Record());
    stream->Download(value.data(), &seen, sizeof(seen));
    stream->Record()->Wait();
  }).join();
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace lockstep::train
