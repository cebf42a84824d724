#include "trainer/data/prefetch_loader.h"

#include <algorithm>

#include "base/check.h"
#include "trainer/data/gather.h"

namespace lockstep::train {

PrefetchLoader::PrefetchLoader(const Dataset& dataset, const LoaderOptions& options)
    : dataset_(dataset), options_(options), orders_(options_) {
  LOCKSTEP_CHECK(options.prefetch >= 1, "prefetch is {}", options.prefetch);
  slots_.resize(Batches(options));
  for (Slot& slot : slots_) slot.batch = MakeBatch(dataset, options.plan, Mixes(options));
  thread_ = std::thread([this] { Run(); });
}

PrefetchLoader::~PrefetchLoader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_freed_.notify_all();
  thread_.join();
}

void PrefetchLoader::Seek(std::int64_t step) {
  {
    const std::lock_guard lock(mutex_);
    ++course_;  // a batch that is being filled will be discarded
    fill_step_ = next_step_ = step;
    failed_ = false;
    Release(SlotState::kReady);
    Release(SlotState::kHeld);
  }
  slot_freed_.notify_all();
}

absl::StatusOr<const Batch*> PrefetchLoader::Next() {
  std::unique_lock lock(mutex_);
  LOCKSTEP_CHECK(next_step_ < options_.end_step, "step {} of {}", next_step_, options_.end_step);
  Release(SlotState::kHeld);
  slot_freed_.notify_all();
  Slot* slot = nullptr;
  slot_ready_.wait(lock, [&] { return (slot = FindReady(next_step_)) != nullptr; });
  // A slot that failed stays ready: the error repeats until a Seek.
  if (slot->thrown) std::rethrow_exception(slot->thrown);
  if (!slot->status.ok()) return slot->status;
  slot->state = SlotState::kHeld;
  ++next_step_;
  return &slot->batch;
}

void PrefetchLoader::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Slot* slot = nullptr;
    slot_freed_.wait(lock, [&] {
      return stopping_ || (!failed_ && fill_step_ < options_.end_step &&
                           (slot = Find(SlotState::kFree)) != nullptr);
    });
    if (stopping_) return;
    const std::int64_t step = fill_step_++;
    slot->state = SlotState::kFilling;
    slot->course = course_;
    lock.unlock();
    absl::Status status;
    std::exception_ptr thrown;
    try {
      status = Gather(dataset_, options_, step, orders_, slot->batch);
    } catch (...) {  // rethrown by Next
      thrown = std::current_exception();
      slot->batch.step = step;
    }
    lock.lock();
    if (slot->course != course_) {
      slot->state = SlotState::kFree;
      continue;
    }
    failed_ = thrown || !status.ok();
    slot->thrown = thrown;
    slot->status = std::move(status);
    slot->state = SlotState::kReady;
    slot_ready_.notify_all();
  }
}

PrefetchLoader::Slot* PrefetchLoader::Find(SlotState state) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const Slot& slot) { return slot.state == state; });
  return found == slots_.end() ? nullptr : &*found;
}

PrefetchLoader::Slot* PrefetchLoader::FindReady(std::int64_t step) {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return slot.state == SlotState::kReady && slot.batch.step == step;
  });
  return found == slots_.end() ? nullptr : &*found;
}

void PrefetchLoader::Release(SlotState state) {
  for (Slot& slot : slots_) {
    if (slot.state == state) slot.state = SlotState::kFree;
  }
}

}  // namespace lockstep::train
