#include "tests/support/cuda_sim/sim_stream.h"

#include <algorithm>
#include <atomic>
#include <vector>

namespace cuda_sim {
namespace {

// Guards the captures, and which streams are in them. Without a capture nobody locks it: it would
// order threads that are not ordered on a real device.
std::mutex captures_mutex;
std::atomic<int> captures_under_way = 0;
std::vector<std::shared_ptr<Capture>>& Captures() {
  static std::vector<std::shared_ptr<Capture>> captures;
  return captures;
}

bool IsUnderWay(const std::shared_ptr<Capture>& capture) {
  return std::ranges::find(Captures(), capture) != Captures().end();
}

}  // namespace

void Point::Reach() {
  {
    const std::lock_guard lock(mutex_);
    is_reached_ = true;
  }
  changed_.notify_all();
}

bool Point::IsReached() {
  const std::lock_guard lock(mutex_);
  return is_reached_;
}

void Point::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_reached_; });
}

Result UncapturedCall() {
  if (captures_under_way == 0) return kSuccess;
  const std::lock_guard lock(captures_mutex);
  Result result = kSuccess;
  for (const auto& capture : Captures()) {
    const bool is_ours = capture->thread == std::this_thread::get_id();
    if (capture->mode == CaptureMode::kRelaxed) continue;
    if (capture->mode == CaptureMode::kThreadLocal && !is_ours) continue;
    capture->is_valid = false;
    result = kCaptureUnsupported;
  }
  return result;
}

Result SimEvent::Query() {
  if (const Result result = UncapturedCall(); result != kSuccess) return result;
  const std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    const std::lock_guard captures_lock(captures_mutex);
    capture_->is_valid = false;
    return kCapturedEvent;
  }
  return point_ == nullptr || point_->IsReached() ? kSuccess : kNotReady;
}

Result SimEvent::Synchronize() {
  const Result result = Query();
  if (result != kNotReady) return result;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Point> point = point_;
  lock.unlock();
  point->Wait();
  return ContextError();
}

SimStream::~SimStream() {
  if (!is_captured_) return;
  const std::lock_guard lock(captures_mutex);
  if (capture_ == nullptr) return;
  capture_->is_valid = false;
  capture_->last.erase(this);
}

Result SimStream::Break(Result result) {
  capture_->is_valid = false;
  return result;
}

Result SimStream::Enqueue(std::function<void()> work) {
  if (!is_captured_) return Run(std::move(work));
  const std::lock_guard lock(captures_mutex);
  if (!capture_->is_valid) return kCaptureInvalidated;
  Graph::Nodes& last = capture_->last[this];
  last = {capture_->graph.Add(std::move(work), last)};
  return kSuccess;
}

Result SimStream::EnqueueUncaptured(std::function<void()> work) {
  if (is_captured_) {
    const std::lock_guard lock(captures_mutex);
    return Break(kCaptureUnsupported);
  }
  return Enqueue(std::move(work));
}

Result SimStream::Run(std::function<void()> work) {
  if (HasFailed(device_)) return kIllegalAddress;
  thread_.Enqueue([work = std::move(work), device = device_] {
    if (!HasFailed(device)) work();
  });
  return kSuccess;
}

std::shared_ptr<Point> SimStream::Mark() {
  auto point = std::make_shared<Point>();
  thread_.Enqueue([point] { point->Reach(); });
  return point;
}

Result SimStream::Synchronize() {
  if (is_captured_) {
    const std::lock_guard lock(captures_mutex);
    return Break(kCaptureUnsupported);
  }
  if (const Result result = UncapturedCall(); result != kSuccess) return result;
  Mark()->Wait();
  return ContextError();
}

Result SimStream::Record(SimEvent& event) {
  const std::lock_guard event_lock(event.mutex_);
  if (!is_captured_) {
    event.capture_ = nullptr;
    event.point_ = Mark();
    return kSuccess;
  }
  const std::lock_guard lock(captures_mutex);
  if (!capture_->is_valid) return kCaptureInvalidated;
  event.point_ = nullptr;
  event.capture_ = capture_;
  event.nodes_ = capture_->last[this];
  return kSuccess;
}

Result SimStream::Wait(SimEvent& event) {
  const std::lock_guard event_lock(event.mutex_);
  if (!is_captured_ && event.capture_ == nullptr) {
    if (event.point_ != nullptr) return Run([point = event.point_] { point->Wait(); });
    return kSuccess;
  }
  const std::lock_guard lock(captures_mutex);
  if (capture_ != nullptr && !capture_->is_valid) return kCaptureInvalidated;
  if (event.capture_ == nullptr) return Break(kCaptureIsolation);
  if (!IsUnderWay(event.capture_))
    return capture_ == nullptr ? kInvalidValue : Break(kInvalidValue);
  if (capture_ != nullptr && capture_ != event.capture_) {
    event.capture_->is_valid = false;
    return Break(kCaptureMerge);
  }
  if (!event.capture_->is_valid) return kCaptureInvalidated;
  capture_ = event.capture_;
  is_captured_ = true;
  capture_->last[this].insert(event.nodes_.begin(), event.nodes_.end());
  return kSuccess;
}

Result SimStream::BeginCapture(CaptureMode mode) {
  const std::lock_guard lock(captures_mutex);
  if (capture_ != nullptr) return kIllegalState;
  capture_ = std::make_shared<Capture>();
  capture_->origin = this;
  capture_->mode = mode;
  capture_->thread = std::this_thread::get_id();
  capture_->last[this] = {};
  Captures().push_back(capture_);
  ++captures_under_way;
  is_captured_ = true;
  return kSuccess;
}

Result SimStream::EndCapture(std::unique_ptr<Graph>& graph) {
  graph = nullptr;
  const std::lock_guard lock(captures_mutex);
  if (capture_ == nullptr) return kIllegalState;
  if (capture_->mode != CaptureMode::kRelaxed && capture_->thread != std::this_thread::get_id()) {
    return kCaptureWrongThread;
  }
  if (capture_->origin != this) return Break(kCaptureUnmatched);
  const std::shared_ptr<Capture> ended = capture_;
  std::erase(Captures(), ended);
  --captures_under_way;
  const Graph::Nodes done = ended->graph.WithAllBefore(ended->last[this]);
  bool is_joined = true;
  for (const auto& [stream, nodes] : ended->last) {
    is_joined = is_joined && std::ranges::includes(done, nodes);
    stream->capture_ = nullptr;
    stream->is_captured_ = false;
  }
  if (!ended->is_valid) return kCaptureInvalidated;
  if (!is_joined) return kCaptureUnjoined;
  graph = std::make_unique<Graph>(std::move(ended->graph));
  return kSuccess;
}

}  // namespace cuda_sim
