#include "trainer/rendezvous/progress_proto.h"

#include <chrono>
#include <optional>
#include <string>

#include "api/v1/enum_names.h"

namespace lockstep::train {

void AddTestMetrics(const api::TestMetrics& metrics,
                    google::protobuf::RepeatedPtrField<proto::TestMetric>& messages) {
  for (const auto& [metric, value] : metrics) {
    proto::TestMetric& message = *messages.Add();
    message.set_name(std::string(api::NameOf(metric)));
    message.set_value(value);
  }
}

proto::TrainerProgress ToProto(const api::Progress& progress) {
  proto::TrainerProgress message;
  message.set_step(progress.step);
  message.set_total_steps(progress.total_steps);
  message.set_epoch(progress.epoch);
  if (progress.loss) message.set_loss(*progress.loss);
  if (progress.accuracy) message.set_accuracy(*progress.accuracy);
  message.set_examples_per_second(progress.examples_per_second);
  if (progress.estimated_remaining_seconds) {
    message.set_estimated_remaining_seconds(*progress.estimated_remaining_seconds);
  }
  message.set_last_checkpoint_step(progress.last_checkpoint_step);
  message.set_samples_lost(progress.samples_lost.value_or(0));
  message.set_samples_duplicated(progress.samples_duplicated.value_or(0));
  if (progress.test_accuracy) message.set_test_accuracy(*progress.test_accuracy);
  if (progress.test_loss) message.set_test_loss(*progress.test_loss);
  if (progress.mean_absolute_error) message.set_mean_absolute_error(*progress.mean_absolute_error);
  if (progress.test_mean_absolute_error) {
    message.set_test_mean_absolute_error(*progress.test_mean_absolute_error);
  }
  AddTestMetrics(progress.test_metrics, *message.mutable_test_metrics());
  if (progress.goodput) message.set_goodput(*progress.goodput);
  if (progress.update_time) {
    const std::chrono::duration<double> since_epoch = progress.update_time->time_since_epoch();
    message.set_update_time(since_epoch.count());
  }
  return message;
}

api::Progress FromProto(const proto::TrainerProgress& message) {
  api::Progress progress;
  progress.step = message.step();
  progress.total_steps = message.total_steps();
  progress.epoch = message.epoch();
  if (message.has_loss()) progress.loss = message.loss();
  if (message.has_accuracy()) progress.accuracy = message.accuracy();
  progress.examples_per_second = message.examples_per_second();
  if (message.has_estimated_remaining_seconds()) {
    progress.estimated_remaining_seconds = message.estimated_remaining_seconds();
  }
  progress.last_checkpoint_step = message.last_checkpoint_step();
  if (message.samples_lost() != 0) progress.samples_lost = message.samples_lost();
  if (message.samples_duplicated() != 0) progress.samples_duplicated = message.samples_duplicated();
  if (message.has_test_accuracy()) progress.test_accuracy = message.test_accuracy();
  if (message.has_test_loss()) progress.test_loss = message.test_loss();
  if (message.has_mean_absolute_error()) {
    progress.mean_absolute_error = message.mean_absolute_error();
  }
  if (message.has_test_mean_absolute_error()) {
    progress.test_mean_absolute_error = message.test_mean_absolute_error();
  }
  for (const proto::TestMetric& metric : message.test_metrics()) {
    const auto* known = api::FindByName<api::TestMetric>(metric.name());
    if (known != nullptr) progress.test_metrics[*known] = metric.value();
  }
  if (message.has_goodput()) progress.goodput = message.goodput();
  if (message.update_time() > 0) {
    const std::chrono::duration<double> since_epoch(message.update_time());
    progress.update_time = Time(std::chrono::duration_cast<Time::duration>(since_epoch));
  }
  return progress;
}

}  // namespace lockstep::train
