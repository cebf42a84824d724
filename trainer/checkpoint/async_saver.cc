#include "trainer/checkpoint/async_saver.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace lockstep::train {

namespace {

std::int64_t BytesOf(const Snapshot& snapshot) {
  std::size_t bytes = 0;
  for (const auto* tensors : {&snapshot.model, &snapshot.optimizer, &snapshot.best}) {
    for (const NamedTensor& tensor : *tensors) bytes += tensor.data.size() * sizeof(float);
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

AsyncSaver::AsyncSaver(CheckpointStore& store) : store_(store), thread_([this] { Run(); }) {}

AsyncSaver::~AsyncSaver() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AsyncSaver::Save(Snapshot snapshot, bool keeps) {
  Save(std::make_shared<const Snapshot>(std::move(snapshot)), keeps);
}

void AsyncSaver::Save(std::shared_ptr<const Snapshot> snapshot, bool keeps) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !pending_; });
  unsaved_.reset();
  pending_ = std::move(snapshot);
  keeps_pending_ = keeps;
  changed_.notify_all();
}

std::shared_ptr<const Snapshot> AsyncSaver::Unsaved() const {
  const std::lock_guard lock(mutex_);
  return unsaved_;
}

std::int64_t AsyncSaver::UnsavedStep() const {
  const std::lock_guard lock(mutex_);
  return unsaved_ ? unsaved_->step : -1;
}

void AsyncSaver::DropUnsaved() {
  const std::lock_guard lock(mutex_);
  unsaved_.reset();
}

std::int64_t AsyncSaver::SaveAgain() {
  std::shared_ptr<const Snapshot> unsaved = Unsaved();
  if (!unsaved) return -1;
  const std::int64_t step = unsaved->step;
  Save(std::move(unsaved), /*keeps=*/true);
  return step;
}

absl::Status AsyncSaver::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !pending_; });
  return outcome_.status;
}

AsyncSaver::Outcome AsyncSaver::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

void AsyncSaver::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return pending_ || stopping_; });
    if (!pending_) return;
    // No other thread accesses pending_ while it is set, so the save needs no lock.
    lock.unlock();
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<std::string> folder = store_.Save(*pending_);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
    if (!folder.ok()) {
      LogError("a checkpoint could not be saved",
               {{"step", pending_->step},
                {"reason", std::string(folder.status().message())},
                {"lastSavedStep", outcome_.last_saved_step}});
    }
    lock.lock();
    outcome_.status = folder.status();
    if (folder.ok()) {
      outcome_.last_saved_step = pending_->step;
      outcome_.last_saved_folder = *folder;
      ++outcome_.saves;
      outcome_.last_saved_bytes = BytesOf(*pending_);
      outcome_.durations.Observe(spent.count());
    } else {
      ++outcome_.failures;
      if (keeps_pending_) unsaved_ = std::move(pending_);
    }
    pending_.reset();
    changed_.notify_all();
  }
}

}  // namespace lockstep::train
