// A training loop of one's own, on the trainer's layers, back ends and optimizers. It learns to
// tell two spirals apart and is shown longer arms as it goes on, which no TrainingJob can ask for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>
#include <vector>

#include "base/status.h"
#include "trainer/backend/backend.h"
#include "trainer/nn/model.h"
#include "trainer/optim/optimizer.h"

namespace {

namespace train = lockstep::train;

constexpr int kRows = 128, kClasses = 2, kSteps = 2000;

struct Batch {
  std::vector<float> x;  // kRows,2
  std::vector<std::int32_t> labels;
};

// Points on the two arms, up to `length` of 1 of them.
Batch Spirals(std::mt19937& random, double length) {
  std::uniform_real_distribution<double> along(0.1, length);
  std::normal_distribution<double> noise(0, 0.05);
  Batch batch;
  for (int i = 0; i < kRows; ++i) {
    const double radius = along(random);
    const double angle = (2 * radius + i % kClasses) * std::numbers::pi;
    batch.x.push_back(static_cast<float>(3 * radius * std::cos(angle) + noise(random)));
    batch.x.push_back(static_cast<float>(3 * radius * std::sin(angle) + noise(random)));
    batch.labels.push_back(i % kClasses);
  }
  return batch;
}

// A model with its loss and optimizer. The back end's memory is the host's.
class Learner {
 public:
  static absl::StatusOr<std::unique_ptr<Learner>> Create() {
    auto learner = std::make_unique<Learner>();
    LOCKSTEP_ASSIGN_OR_RETURN(
        learner->model_,
        train::Model::Build({{{"type", "Dense"}, {"units", 64}, {"activation", "relu"}},
                             {{"type", "Dense"}, {"units", 64}, {"activation", "relu"}},
                             {{"type", "Dense"}, {"units", kClasses}}},
                            {.batch = kRows, .input = {2}, .classes = kClasses, .seed = 1},
                            *learner->backend_));
    LOCKSTEP_ASSIGN_OR_RETURN(
        learner->optimizer_,
        train::Optimizer::Create({.name = "Adam"}, *learner->model_, *learner->backend_));
    learner->loss_ =
        learner->backend_->MakeSoftmaxCrossEntropy({.rows = kRows, .classes = kClasses});
    return learner;
  }

  // Returns the sums over the batch. With a learning rate of 0, only evaluates.
  train::LossTotals Run(const Batch& batch, std::int64_t step, float learning_rate) {
    const bool trains = learning_rate > 0;
    backend_->Upload(batch.x.data(), model_->input(), batch.x.size() * sizeof(float));
    model_->SetStep({.valid = kRows, .step = static_cast<std::uint64_t>(step)});
    model_->Forward(trains ? train::Mode::kTraining : train::Mode::kEvaluation);
    train::LossTotals totals;
    loss_->Bind({.logits = model_->logits(),
                 .dlogits = trains ? model_->logits_gradient() : nullptr,
                 .labels = batch.labels.data(),
                 .weights = weights_.data(),
                 .scale = trains ? &kScale : nullptr,
                 .totals = &totals});
    loss_->Run();
    if (!trains) return totals;
    model_->Backward([](std::int64_t, std::int64_t) {});  // here ranks would exchange gradients
    *optimizer_->step() = {.learning_rate = learning_rate, .step = step + 1};
    optimizer_->Step();
    return totals;
  }

 private:
  static constexpr float kScale = 1.0f / kRows;  // the gradient is that of the mean loss

  const std::unique_ptr<train::Backend> backend_ = train::MakeBackend({.name = "cpu"});
  const std::vector<float> weights_ = std::vector<float>(kRows, 1.0f);
  std::unique_ptr<train::Model> model_;
  std::unique_ptr<train::Optimizer> optimizer_;
  std::unique_ptr<train::LossOp> loss_;
};

absl::Status Train() {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::unique_ptr<Learner> learner, Learner::Create());
  std::mt19937 random(1);
  for (int step = 0; step < kSteps; ++step) {
    const double length = std::min(1.0, 0.4 + 1.2 * step / kSteps);
    const auto totals = learner->Run(Spirals(random, length), step, 0.003f);
    if (step % 400 == 0) {
      fmt::print("step {:4}  arms {:3.0f} %  loss {:.4f}\n", step, 100 * length,
                 totals.loss / kRows);
    }
  }
  const auto totals = learner->Run(Spirals(random, 1), kSteps, 0);
  fmt::print("accuracy {:.1f} % of new points\n", 100 * totals.correct / kRows);
  if (totals.correct < 0.9 * kRows) return absl::InternalError("it has not learned the arms");
  return absl::OkStatus();
}

}  // namespace

int main() {
  const absl::Status trained = Train();
  if (trained.ok()) return 0;
  fmt::print(stderr, "custom_loop: {}\n", std::string(trained.message()));
  return 1;
}
