// A group of one: every collective is the identity.
#pragma once

#include <atomic>
#include <functional>
#include <stop_token>
#include <string>
#include <utility>

#include "trainer/comm/communicator.h"

namespace lockstep::train {

class SingleCommunicator final : public Communicator {
 public:
  explicit SingleCommunicator(std::stop_token cancel = {})
      : on_cancel_(std::move(cancel), [this] { Abort(); }) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string Name() const override { return "single"; }
  absl::Status AllReduceSum(std::span<float>) override { return Health(); }
  absl::Status Broadcast(std::span<std::byte>, int) override { return Health(); }
  absl::Status Barrier() override { return Health(); }
  void Abort() override { aborted_.store(true); }

 private:
  absl::Status Health() const {
    if (aborted_.load()) return absl::CancelledError("collective: aborted by this process");
    return absl::OkStatus();
  }

  std::atomic<bool> aborted_{false};
  std::stop_callback<std::function<void()>> on_cancel_;
};

}  // namespace lockstep::train
