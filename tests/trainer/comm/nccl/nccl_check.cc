// Tries NCCL between two processes on real GPUs: sums, an abort in the middle of one, and the loss
// of a process. One JSON line a case; exit code 1 if one is wrong. Not a test: build it with the
// preset `cuda` and run build/cuda/bin/nccl_check [gpus].
//
// With one GPU, the processes share it, which NCCL refuses on one host; NCCL_HOSTID makes it take
// them for two hosts, between which it sends over TCP. So the speed says nothing then.
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/shared_memory.h"
#include "tests/support/spawn_ranks.h"
#include "trainer/backend/backend.h"
#include "trainer/check/device_array.h"
#include "trainer/comm/nccl/nccl_communicator.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kFloats = 3'274'634;  // core-cnn's parameters: 13.1 MB
constexpr int kGroups = 3;                   // one for each case

struct Report {
  std::array<nccl::UniqueId, kGroups> ids;
  std::atomic<int> made{0};
  std::atomic<bool> is_wrong{false}, waits{false};
};

double SecondsSince(SteadyTime start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class CheckedRank {
 public:
  CheckedRank(int rank, int gpu, Report& report)
      : rank_(rank),
        report_(report),
        backend_(MakeBackend({.name = "cuda", .device = gpu})),
        memory_(*backend_, std::vector<float>(kFloats)),
        is_ok_(*backend_, {'\1'}),
        stream_(backend_->MakeStream()) {}

  void CheckSums() {
    Connect(0);
    std::vector<float> values(kFloats);
    for (int step = 0; step < 20; ++step) {
      std::ranges::fill(values, static_cast<float>(2 * step + rank_));
      Set(values);
      Sum(kFloats);
      const float sum = static_cast<float>(4 * step + 1);
      Expect(IsOk(), "a sum counts");
      Expect(std::ranges::count(memory_.Values(), sum) == kFloats, "a sum is right");
    }
    for (const std::int64_t count : {std::int64_t{1024}, kFloats}) Time(count);
    Disconnect();
  }

  // Rank 1 stays away from the second sum.
  void CheckAbort() {
    Connect(1);
    Sum(kFloats);
    Expect(IsOk(), "a sum before the abort is right");
    if (rank_ == 0) {
      Sum(kFloats);
      std::this_thread::sleep_for(500ms);
      Expect(communicator_->status().ok(), "a sum waits for a rank that is late");
      const SteadyTime start = std::chrono::steady_clock::now();
      communicator_->Abort();
      Expect(!IsOk(), "a sum that was aborted does not count");
      Say("abort", "seconds_to_end", SecondsSince(start));
      report_.waits = true;
    }
    while (!report_.waits) std::this_thread::sleep_for(1ms);
    Disconnect();
  }

  // Rank 1 kills itself instead of the second sum.
  void CheckLoss() {
    Connect(2);
    Sum(kFloats);
    Expect(IsOk(), "a sum before the loss is right");
    if (rank_ == 1) ::raise(SIGKILL);
    const SteadyTime start = std::chrono::steady_clock::now();
    Sum(kFloats);
    while (communicator_->status().ok() && SecondsSince(start) < 5)
      std::this_thread::sleep_for(1ms);
    const bool is_noticed = !communicator_->status().ok();
    fmt::print(
        "{{\"case\":\"loss\",\"noticed_by_nccl\":{},\"seconds\":{:.3f},\"status\":\"{}\"}}\n",
        is_noticed, SecondsSince(start), communicator_->status().ToString());
    communicator_->Abort();
    Expect(!IsOk(), "a sum without a rank does not count");
    Disconnect();
  }

 private:
  void Connect(int group) {
    const nccl::Api& api = **nccl::OpenNccl();
    auto& id = report_.ids.at(static_cast<std::size_t>(group));
    if (rank_ == 0) {
      Expect(api.GetUniqueId(&id) == nccl::kSuccess, "rank 0 makes an id");
      report_.made = group + 1;
    }
    while (report_.made <= group) std::this_thread::sleep_for(1ms);
    const SteadyTime start = std::chrono::steady_clock::now();
    auto made = NcclCommunicator::Create(api, {.rank = rank_, .size = 2, .id = id}, *stream_);
    if (!made.ok()) {
      fmt::print("{{\"case\":\"connect\",\"rank\":{},\"status\":\"{}\"}}\n", rank_,
                 made.status().ToString());
      report_.is_wrong = true;
      std::fflush(nullptr);
      std::_Exit(1);
    }
    communicator_ = *std::move(made);
    const GradientReducer::Bucket all{.begin = 0, .end = kFloats};
    Expect(communicator_->Try(memory_.data(), {&all, 1}, *stream_).ok(), "the first sum ends");
    if (rank_ == 0) Say("connect", "seconds", SecondsSince(start));
  }
  void Disconnect() {
    communicator_->Abort();
    stream_->Record()->Wait();
    const SteadyTime start = std::chrono::steady_clock::now();
    communicator_.reset();
    if (rank_ == 0) Say("disconnect", "seconds", SecondsSince(start));
  }
  void Set(const std::vector<float>& values) {
    memory_.Set(values);
    backend_->Synchronize();
  }
  void Sum(std::int64_t count) {
    communicator_->EnqueueAllReduceSum(memory_.data(), count, DType::kFloat32, *stream_);
    communicator_->EnqueueStatus(reinterpret_cast<bool*>(is_ok_.data()), *stream_);
  }
  bool IsOk() {
    stream_->Record()->Wait();
    return is_ok_.Values()[0] != 0;
  }
  // How long a sum takes, and for how much of that the host is held up.
  void Time(std::int64_t count) {
    constexpr int kRounds = 50;
    Set(std::vector<float>(kFloats));
    double queueing = 0;
    const SteadyTime start = std::chrono::steady_clock::now();
    for (int round = 0; round < kRounds; ++round) {
      const SteadyTime call = std::chrono::steady_clock::now();
      communicator_->EnqueueAllReduceSum(memory_.data(), count, DType::kFloat32, *stream_);
      queueing += SecondsSince(call);
    }
    stream_->Record()->Wait();
    if (rank_ != 0) return;
    fmt::print("{{\"case\":\"sum\",\"floats\":{},\"microseconds\":{:.0f},\"of_host\":{:.0f}}}\n",
               count, 1e6 * SecondsSince(start) / kRounds, 1e6 * queueing / kRounds);
  }
  static void Say(const char* name, const char* what, double seconds) {
    fmt::print("{{\"case\":\"{}\",\"{}\":{:.3f}}}\n", name, what, seconds);
  }
  void Expect(bool is_true, const char* what) {
    if (is_true) return;
    fmt::print("{{\"rank\":{},\"wrong\":\"{}\"}}\n", rank_, what);
    report_.is_wrong = true;
  }

  const int rank_;
  Report& report_;
  const std::unique_ptr<Backend> backend_;
  DeviceArray<float> memory_;
  DeviceArray<char> is_ok_;
  const std::unique_ptr<Stream> stream_;
  std::unique_ptr<NcclCommunicator> communicator_;
};

int Check(int gpus) {
  const Shared<Report> report;
  ForkedRanks ranks(2, [&](int rank) {
    if (gpus == 1) ::setenv("NCCL_HOSTID", std::to_string(rank).c_str(), /*overwrite=*/1);
    CheckedRank checked(rank, rank % gpus, *report);
    checked.CheckSums();
    checked.CheckAbort();
    checked.CheckLoss();
    return 0;
  });
  const bool has_ended = ranks.Wait(0, 120s) == 0 && ranks.Wait(1, 5s) == 128 + SIGKILL;
  fmt::print("{{\"case\":\"all\",\"right\":{}}}\n", has_ended && !report->is_wrong);
  return has_ended && !report->is_wrong ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  return lockstep::train::Check(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
}
