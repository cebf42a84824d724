#include "trainer/strategy/stage_link.h"

#include <utility>

namespace lockstep::train {
namespace {

constexpr int kSender = 0;  // its rank in the communicator

}  // namespace

StageLink::StageLink(std::unique_ptr<Communicator> communicator, End end, std::span<std::byte> ring,
                     int slots)
    : communicator_(std::move(communicator)),
      end_(end),
      ring_(ring),
      slots_(slots),
      thread_([this](const std::stop_token& stop) { Run(stop); }) {}

StageLink::~StageLink() {
  communicator_->Abort();
}

void StageLink::Expect(int messages) {
  const std::lock_guard lock(mutex_);
  expected_ += messages;
  changed_.notify_all();
}

absl::StatusOr<std::span<std::byte>> StageLink::Next() {
  std::unique_lock lock(mutex_);
  const auto is_there = [this] {
    return end_ == End::kSends ? done_ - passed_ < slots_ : done_ < passed_;
  };
  changed_.wait(lock, [&] { return is_there() || !status_.ok(); });
  if (!status_.ok()) return status_;
  return Slot(done_);
}

void StageLink::Done() {
  const std::lock_guard lock(mutex_);
  ++done_;
  changed_.notify_all();
}

std::span<std::byte> StageLink::Slot(std::int64_t message) const {
  const std::size_t bytes = ring_.size() / static_cast<std::size_t>(slots_);
  return ring_.subspan(static_cast<std::size_t>(message % slots_) * bytes, bytes);
}

bool StageLink::MayPass() const {
  if (end_ == End::kSends) return passed_ < done_;
  return passed_ < expected_ && passed_ - done_ < slots_;
}

void StageLink::Run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return MayPass(); })) {
    const std::span<std::byte> message = Slot(passed_);
    lock.unlock();
    absl::Status passed = communicator_->Broadcast(message, kSender);
    lock.lock();
    if (passed.ok()) {
      ++passed_;
    } else {
      status_ = std::move(passed);
    }
    changed_.notify_all();
    if (!status_.ok()) return;
  }
}

}  // namespace lockstep::train
