#include "trainer/train/metrics_sender.h"

namespace lockstep::train {
namespace {

void SetPhases(const PhaseTimes& times, ReplicaMetrics& metrics) {
  metrics.idle_seconds = times.Seconds(Phase::kIdle);
  metrics.input_seconds = times.Seconds(Phase::kInput);
  metrics.compute_seconds = times.Seconds(Phase::kForward) + times.Seconds(Phase::kBackward);
  metrics.communication_seconds = times.Seconds(Phase::kCommunication);
  metrics.optimizer_seconds = times.Seconds(Phase::kOptimizer);
  metrics.checkpoint_seconds = times.Seconds(Phase::kCheckpoint);
  metrics.evaluation_seconds = times.Seconds(Phase::kEvaluation);
  metrics.rendezvous_seconds = times.Seconds(Phase::kRendezvous);
}

}  // namespace

MetricsSender::MetricsSender(const Clock& clock, const GetEnv& env, int rank, int world,
                             Duration period)
    : initial_(MetricsAtStart(rank, world)),
      period_(period),
      phases_(clock),
      published_(Published{.metrics = initial_}),
      pipe_(env),
      thread_([this] { Run(); }) {
  SendNow();
}

MetricsSender::~MetricsSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MetricsSender::Publish(const ReplicaMetrics& metrics, Duration training_time) {
  published_.Set({metrics, training_time});
}

void MetricsSender::SendNow() {
  const std::lock_guard lock(mutex_);
  Send();
}

void MetricsSender::Run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, period_, [this] { return stopping_; })) Send();
  Send();
}

void MetricsSender::Send() {
  const auto& [published, training_time] = published_.Get();
  if (published.rank < 0) return;
  ReplicaMetrics metrics = published;
  const PhaseTimes times = phases_.Read();
  SetPhases(times, metrics);
  const double life = times.Life();
  metrics.goodput = life > 0 ? std::chrono::duration<double>(training_time).count() / life : 0;
  pipe_.Write(EncodeMetrics(metrics));
}

}  // namespace lockstep::train
