// What a replica keeps in memory for its whole life, across generations: data, model, optimizer,
// and the buffers of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/data/sampler.h"
#include "trainer/nn/model.h"
#include "trainer/optim/optimizer.h"

namespace lockstep::train {

struct SessionOptions {
  api::TrainingSpec training;
  int world = 1;
  int threads = 1;
  std::string backend = "cpu";
};

// The end of the all-reduced buffer, after gradients and states, so that a step needs only one sum.
// All fields are sums over ranks.
struct StepTail {
  static constexpr int kHashLimbs = 8;  // 8 bits each, so that float sums are exact
  float loss = 0, correct = 0, examples = 0;
  float stop_requests = 0;
  float hash_limbs[kHashLimbs] = {};
  float unused[4] = {};
};
static_assert(sizeof(StepTail) == 64);
void SetHash(StepTail& tail, std::uint64_t hash);
std::uint64_t HashOf(const StepTail& tail);  // the sum of all ranks' hashes, modulo 2^64

// Not thread-safe; used by the training thread.
class Session {
 public:
  // NotFound or DataLoss: the data set cannot be used. InvalidArgument: the model or the batch size
  // is invalid; names the field.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionOptions& options);

  const api::TrainingSpec& training() const { return training_; }
  const StepPlan& plan() const { return plan_; }
  std::int64_t total_steps() const { return total_steps_; }
  const Dataset& train_data() const { return *train_data_; }
  const Dataset* test_data() const { return test_data_.get(); }  // null if evaluation is off
  Backend& backend() { return *backend_; }
  Model& model() { return *model_; }
  Optimizer& optimizer() { return *optimizer_; }

  // What a step sums over ranks: [gradients | states | StepTail].
  GradientBuffer& buffer() { return *buffer_; }
  float* buffer_states() { return buffer_->data() + model_->gradients().size(); }
  StepTail& tail() {
    return *reinterpret_cast<StepTail*>(buffer_states() + model_->states().size());
  }
  std::vector<std::int64_t> LayerStarts();  // offsets in buffer(), ascending

  // A rank's batch is computed in this many parts, one after the other. The model's batch is the
  // rows of a part. At most gradientAccumulation, and as few as these rows need.
  int parts() const { return parts_; }
  struct Part {
    std::int64_t valid = 0;           // leading rows that are real samples
    std::int64_t first_position = 0;  // row 0's position in the epoch
  };
  // Copies a part of a batch into the model's input and the losses' labels and weights. Rows that
  // the batch does not have get weight 0.
  Part Load(const Batch& batch, int part);
  // The sum of the gradients of the parts before the last; empty with one part.
  std::vector<float>& accumulated() { return accumulated_; }
  // Both losses are bound to the model's logits and to the loaded batch's labels and weights.
  LossOp& training_loss() { return *training_loss_; }
  LossOp& evaluation_loss() { return *evaluation_loss_; }
  // The states as they were before the step, in case it must be repeated.
  std::vector<float>& saved_states() { return saved_states_; }

 private:
  Session() = default;
  absl::Status OpenData();
  absl::Status BuildModel(const SessionOptions& options);

  api::TrainingSpec training_;
  StepPlan plan_;
  std::int64_t total_steps_ = 0;
  std::unique_ptr<Dataset> train_data_, test_data_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<GradientBuffer> buffer_;  // outlives the model that is bound to it
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LossOp> training_loss_, evaluation_loss_;
  std::vector<std::int32_t> labels_;
  std::vector<float> weights_, saved_states_, accumulated_;
  int parts_ = 1;
};

}  // namespace lockstep::train
