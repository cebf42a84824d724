// One direction of what two neighbouring stages of a pipeline exchange: messages of one size, in
// order. A thread passes them on, so that neither stage waits for the other's transfers.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/comm/communicator.h"

namespace lockstep::train {

// For one thread. A failure is one of the communicator's, and final.
class StageLink {
 public:
  enum class End { kSends, kReceives };
  // `communicator`: of the two, the sender first. `ring`: memory for `slots` messages on each side;
  // no copies are made if it is that of the communicator's GradientBuffer. Requires: `ring`
  // outlives the link.
  StageLink(std::unique_ptr<Communicator> communicator, End end, std::span<std::byte> ring,
            int slots);
  // Messages that are on their way may be lost.
  ~StageLink();
  StageLink(const StageLink&) = delete;
  StageLink& operator=(const StageLink&) = delete;

  // Announces that `messages` more will be sent or received. A link waits for the other side only
  // for announced messages, and so not between two steps.
  void Expect(int messages);
  // The memory of the next message. Blocks: as a sender, while all slots hold messages that are not
  // passed on; as a receiver, until the message is there. Requires: it is expected.
  absl::StatusOr<std::span<std::byte>> Next();
  // The sender has written that message; the receiver has read it.
  void Done();

 private:
  std::span<std::byte> Slot(std::int64_t message) const;
  void Run(const std::stop_token& stop);
  bool MayPass() const;

  const std::unique_ptr<Communicator> communicator_;
  const End end_;
  const std::span<std::byte> ring_;
  const int slots_;
  std::mutex mutex_;  // guards the next four
  std::int64_t expected_ = 0;
  std::int64_t done_ = 0;    // by the caller
  std::int64_t passed_ = 0;  // by the thread
  absl::Status status_;
  std::condition_variable_any changed_;
  std::jthread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::train
