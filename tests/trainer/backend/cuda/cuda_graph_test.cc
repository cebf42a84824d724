// Work that the back end records and queues again, on the simulated device.
#include "trainer/backend/cuda/device/cuda_graph.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/cuda_sim/use_simulator.h"
#include "trainer/backend/backend.h"
#include "trainer/check/device_array.h"

namespace lockstep::train {
namespace {

using Floats = std::vector<float>;

class CudaGraphTest : public ::testing::Test {
 protected:
  void Double(const DeviceArray<float>& x) { backend_->Scale(x.data(), x.data(), 1, 2); }

  const std::unique_ptr<Backend> backend_ = MakeBackend({.name = "cuda"});
};

TEST_F(CudaGraphTest, WorkRunsAtEachReplayAndNotBefore) {
  DeviceArray<float> x(*backend_, {1});
  float factor = 2;
  const auto recording = backend_->Record([&] { backend_->Scale(x.data(), x.data(), 1, factor); });
  ASSERT_NE(recording, nullptr);
  factor = 100;  // what is passed by value is as it was
  EXPECT_EQ(x.Values(), Floats{1});
  recording->Replay();
  recording->Replay();
  EXPECT_EQ(x.Values(), Floats{4});
  x.Set({5});  // and memory as it is
  recording->Replay();
  EXPECT_EQ(x.Values(), Floats{10});
}

TEST_F(CudaGraphTest, ReplaysAreOrderedWithOtherWork) {
  DeviceArray<float> x(*backend_, {1}), y(*backend_, {0});
  const auto recording = backend_->Record([&] {
    Double(x);
    backend_->Copy(x.data(), y.data(), sizeof(float));
    backend_->Zero(x.data(), sizeof(float));
  });
  ASSERT_NE(recording, nullptr);
  backend_->Scale(x.data(), x.data(), 1, 10);
  recording->Replay();
  backend_->Accumulate(y.data(), x.data(), 1);
  EXPECT_EQ(x.Values(), Floats{20});
}

// Each would be right once, when it is recorded, and wrong when it is replayed.
TEST_F(CudaGraphTest, WhatTheHostMustDoIsNotRecorded) {
  DeviceArray<float> x(*backend_, {3});
  const std::unique_ptr<Stream> beside = backend_->MakeStream();
  float host = 7;
  const std::vector<std::pair<const char*, std::function<void(Backend&)>>> cases = {
      {"a wait", [](Backend& backend) { backend.Synchronize(); }},
      {"an event", [](Backend& backend) { backend.stream().Record()->Wait(); }},
      {"an upload", [&](Backend& backend) { backend.Upload(&host, x.data(), sizeof(host)); }},
      {"a download", [&](Backend& backend) { backend.Download(x.data(), &host, sizeof(host)); }},
      {"a download of a stream",
       [&](Backend& backend) { backend.stream().Download(x.data(), &host, sizeof(host)); }},
      {"a call", [](Backend& backend) { backend.stream().Call([] {}); }},
      {"a number", [&](Backend& backend) { backend.AllFinite(x.data(), 1); }},
      {"memory", [](Backend& backend) { backend.memory().Allocate(4096); }},
      {"a wait for what was before",
       [&, event = beside->Record()](Backend& backend) { backend.stream().Wait(event); }},
  };
  for (const auto& [name, work] : cases) {
    SCOPED_TRACE(name);
    const auto backend = MakeBackend({.name = "cuda"});
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(backend->Record([&, &work = work] {
      backend->Scale(x.data(), x.data(), 1, 100);
      work(*backend);
    }),
              nullptr);
    EXPECT_EQ(backend->Record([] { FAIL() << "it was tried again"; }), nullptr);
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(log.find("cannot be recorded"), std::string::npos) << log;
    DeviceArray<float> y(*backend, {1});
    backend->Scale(y.data(), y.data(), 1, 2);
    EXPECT_EQ(y.Values(), Floats{2}) << "the stream works on";
  }
  EXPECT_EQ(x.Values(), Floats{3}) << "nothing of them has run";
  EXPECT_EQ(host, 7);
}

TEST_F(CudaGraphTest, AnErrorOfTheCallersEndsTheRecordingAndGoesOn) {
  DeviceArray<float> x(*backend_, {3});
  EXPECT_THROW(backend_->Record([&] {
    Double(x);
    throw std::runtime_error("the caller's");
  }),
               std::runtime_error);
  Double(x);
  EXPECT_EQ(x.Values(), Floats{6});
  const auto recording = backend_->Record([&] { Double(x); });
  ASSERT_NE(recording, nullptr);
  recording->Replay();
  EXPECT_EQ(x.Values(), Floats{12});
}

// As the threads that load samples, and those of other trainings.
TEST_F(CudaGraphTest, OtherThreadsUseTheDeviceMeanwhile) {
  DeviceArray<float> x(*backend_, {3});
  Floats seen;
  const auto recording = backend_->Record([&] {
    Double(x);
    std::thread([&] {
      const auto other = MakeBackend({.name = "cuda"});
      const DeviceArray<float> y(*other, {1});
      other->Scale(y.data(), y.data(), 1, 2);
      seen = y.Values();
    }).join();
    Double(x);
  });
  ASSERT_NE(recording, nullptr);
  EXPECT_EQ(seen, Floats{2});
  recording->Replay();
  EXPECT_EQ(x.Values(), Floats{12});
}

TEST(RecordingTest, OtherBackEndsRecordNothing) {
  for (const std::string& name : BackendNames()) {
    if (name == "cuda") continue;
    EXPECT_EQ(MakeBackend({.name = name})->Record([] { FAIL() << "it was run"; }), nullptr) << name;
  }
}

}  // namespace
}  // namespace lockstep::train
