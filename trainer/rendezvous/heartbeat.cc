#include "trainer/rendezvous/heartbeat.h"

#include <utility>

#include "trainer/rendezvous/progress_proto.h"

namespace lockstep::train {

Heartbeat::Heartbeat(const Clock& clock, Duration every, std::function<Target()> current)
    : clock_(clock), every_(every), current_(std::move(current)) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void Heartbeat::Report(const api::Progress& progress) {
  const std::lock_guard lock(mutex_);
  progress_ = ToProto(progress);
  has_new_progress_ = true;
}

bool Heartbeat::TellProgress() {
  {
    const std::lock_guard lock(mutex_);
    if (!has_new_progress_) return false;
  }
  return Send();
}

void Heartbeat::Run(const std::stop_token& stop) {
  SteadyTime next = clock_.SteadyNow();
  while (!stop.stop_requested()) {
    if (clock_.SteadyNow() >= next) {
      next = clock_.SteadyNow() + every_;
      Send();
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop, next - clock_.SteadyNow(), [] { return false; });
  }
}

bool Heartbeat::Send() {
  const std::lock_guard sends(sending_);
  const Target target = current_();
  if (!target.stream) return false;
  proto::ReplicaMessage message;
  proto::Heartbeat& heartbeat = *message.mutable_heartbeat();
  heartbeat.set_generation(target.generation);
  heartbeat.set_activity(static_cast<proto::Activity>(activity_.load()));
  heartbeat.set_step_part(static_cast<proto::StepPart>(step_part_.load()));
  heartbeat.set_keeps_workers(keeps_workers_);
  heartbeat.set_is_saved(is_saved_);
  {
    const std::lock_guard lock(mutex_);
    if (progress_) *heartbeat.mutable_progress() = *progress_;
    has_new_progress_ = false;
  }
  target.stream->Send(message);
  return true;
}

}  // namespace lockstep::train
