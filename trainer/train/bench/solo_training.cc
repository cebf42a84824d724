#include "trainer/train/bench/solo_training.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lockstep::train {
namespace {

// A group of one needs no store.
class NoStore final : public KeyValueStore {
 public:
  absl::Status Set(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  const GetOptions&) override {
    return absl::NotFoundError("a training without peers asked for '" + keys.front() + "'");
  }
};

}  // namespace

api::TrainingSpec SyntheticTraining(std::string model, std::int64_t batch,
                                    api::SyntheticSpec samples) {
  api::TrainingSpec training;
  training.model.name = std::move(model);
  training.batch_size.global = batch;
  training.evaluation.enabled = false;
  training.dataset.format = api::DatasetFormat::kSynthetic;
  training.dataset.synthetic = std::move(samples);
  return training;
}

SoloTraining::SoloTraining(std::unique_ptr<Session> session)
    : session_(std::move(session)),
      strategy_(MakeCollectiveStrategy(
          session_->buffer(), {.layer_starts = session_->LayerStarts()}, session_->device_sums())),
      loader_(Loader::Create(session_->train_data(), {.plan = session_->plan()})) {}

absl::StatusOr<std::unique_ptr<SoloTraining>> SoloTraining::Create(
    std::unique_ptr<Session> session) {
  std::unique_ptr<SoloTraining> training(new SoloTraining(std::move(session)));
  training->session_->model().InitializeParameters();
  NoStore store;
  LOCKSTEP_RETURN_IF_ERROR(training->strategy_->Connect(
      {.generation = 1, .rank = 0, .members = {{.address = "127.0.0.1"}}}, store));
  return training;
}

absl::StatusOr<std::unique_ptr<SoloTraining>> SoloTraining::Create(
    const SessionOptions& options, std::unique_ptr<Backend> backend) {
  SessionParts parts;
  LOCKSTEP_ASSIGN_OR_RETURN(parts.data, Session::OpenData(options));
  parts.backend = std::move(backend);
  LOCKSTEP_ASSIGN_OR_RETURN(auto session, Session::Assemble(options, std::move(parts)));
  return Create(std::move(session));
}

absl::StatusOr<StepTotals> SoloTraining::Run(std::int64_t steps) {
  const std::int64_t ahead = session_->steps_ahead();
  const std::int64_t end = step_ + steps;
  StepTotals last;
  for (std::int64_t begun = step_; step_ < end; ++step_) {
    for (; begun < std::min(step_ + ahead, end); ++begun) {
      if (const auto ended = BeginStep(*session_, *strategy_, *loader_, {.step = begun}, phases_))
        return ended->reason;
    }
    const auto done = EndStep(*session_, *strategy_, step_, phases_);
    if (const auto* ended = std::get_if<LoopOutcome>(&done)) return ended->reason;
    last = std::get<StepTotals>(done);
  }
  return last;
}

}  // namespace lockstep::train
