// What a replica keeps in memory for its whole life, across generations: data, model, optimizer,
// and the buffers of a step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/training_job.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/step_recorder.h"
#include "trainer/comm/gradient_buffer.h"
#include "trainer/comm/stream_communicator.h"
#include "trainer/core/flat_range.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader.h"
#include "trainer/data/sampler.h"
#include "trainer/nn/model.h"
#include "trainer/nn/model_description.h"
#include "trainer/optim/optimizer.h"
#include "trainer/strategy/stage_groups.h"
#include "trainer/strategy/strategy.h"
#include "trainer/train/evaluation_metrics.h"
#include "trainer/train/followed_run.h"

namespace lockstep::train {

struct SessionOptions {
  api::TrainingSpec training;
  std::optional<std::int64_t> data_seed = {};  // see OpenDatasets; absent: training.seed
  int world = 1;
  int threads = 1;  // that compute
  std::string backend = "cpu";
  int device = 0, devices = 0;     // see BackendOptions
  bool falls_back_to_cpu = false;  // see OpenDevice
  UpdateSite update_site = UpdateSite::kEveryRank;
  int rank = 0;               // this one, among `world`; only kShares asks for it
  bool records_steps = true;  // if the back end can: see step_recorder.h
  // True: the session opens no training data, and has memory for neither gradients nor the
  // optimizer's slots. Of its methods, those of a step must not be called.
  bool only_evaluates = false;
  // The stage that this process computes and holds, if the model is cut into several. `world` is
  // then the number of pipelines.
  ModelStage stage = {};
};

// The steps of a whole run.
std::int64_t TotalSteps(const api::TrainingSpec& training, const StepPlan& plan);

// An epoch of which steps have been done, and the number of replicas at its beginning.
struct BegunEpoch {
  std::int64_t epoch = -1;  // -1: none
  std::int64_t replicas = 0;
};

// Returns InvalidArgument if `files` training files are too few for a run to begin with so many
// replicas that read files of their own.
absl::Status CheckFiles(std::int64_t files, std::int64_t replicas);

// What a session is made of besides its options.
struct SessionParts {
  TrainAndTest data;  // opened or checked by OpenData
  std::unique_ptr<Backend> backend;
  std::function<absl::StatusOr<std::unique_ptr<GradientBuffer>>(std::size_t floats, bool reserves)>
      make_buffer = &GradientBuffer::Create;
  // Replaces the training data in a session that only evaluates, and is required there.
  std::optional<FollowedRun> run = {};
  // See ModelOptions. A rank whose parameters rank 0 updates never initializes them: they stay zero
  // until it takes those of rank 0.
  bool initializes_model = true;
};

// Bytes. Each part is in one of the members.
struct SessionMemory {
  ModelMemory model;
  std::size_t sums = 0;   // a step's gradients, states and totals, on host and device together
  std::size_t slots = 0;  // the optimizer's
  std::size_t step = 0;   // labels, kept gradients, and what a device needs to decide by itself
  std::size_t links = 0;  // what is on its way between this stage and its neighbours, on the host
  std::size_t total() const { return model.total() + sums + slots + step + links; }
};

// Not thread-safe; used by the training thread.
class Session {
 public:
  // NotFound or DataLoss: the data set cannot be used. InvalidArgument: the model, the batch size,
  // the augmentation or how the samples are divided is invalid (names the field), or the device
  // cannot be used. Unavailable or ResourceExhausted: as for Dataset::Read, OpenDevice and
  // GradientBuffer::Create. Requires: !options.only_evaluates.
  static absl::StatusOr<std::unique_ptr<Session>> Create(const SessionOptions& options);
  // Like Create, but from given parts; ignores the options that choose a device. InvalidArgument
  // and Unavailable: as for Create. DataLoss: the test data do not match parts.run. Requires: with
  // options.only_evaluates, parts.run and the test set are present.
  static absl::StatusOr<std::unique_ptr<Session>> Assemble(const SessionOptions& options,
                                                           SessionParts parts);
  // Opens the data sets, and checks that they fit each other and the loss; of a session that only
  // evaluates, only the test set. Errors: as for Create.
  static absl::StatusOr<TrainAndTest> OpenData(const SessionOptions& options);
  ~Session();

  const api::TrainingSpec& training() const { return training_; }
  std::int64_t data_seed() const { return data_seed_; }
  const StepPlan& plan() const { return plan_; }
  // The training files that have samples, if replicas read files of their own; else 0.
  std::int64_t dealt_files() const { return plan_.deals_files ? groups_->count() : 0; }
  std::int64_t total_steps() const { return total_steps_; }
  const Dataset& train_data() const { return *train_data_; }  // requires: it does not only evaluate
  const Dataset* test_data() const { return test_data_.get(); }  // null if evaluation is off
  // dataset.threads of them, or as many as threads compute. They start when there is something to
  // read.
  ReadingThreads reading_threads() const { return {readers_.get(), reading_threads_}; }
  // Returns how rank `rank` of the plan's world reads its training samples, from the settings in
  // training().dataset. `begun`: the epoch that began with another number of replicas, if one did.
  LoaderOptions TrainingReads(int rank, const BegunEpoch& begun = {}) const;
  Backend& backend() { return *backend_; }
  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  const ModelDescription& model_description() const { return model_description_; }
  // Equal on all ranks of a group: the sizes, elements and classes of the data sets, digests of
  // their samples (if Create has made this session), then the parameters' layout. Before them, if
  // ranks multiply matrices in their updates: Optimizer::ProbeUpdate. The form is that
  // of rendezvous/fingerprint.h.
  std::string Fingerprint() const;
  // A digest of the samples as the model sees them: DigestOfSamples, and how they are normalized.
  // 0: unknown, because Assemble made this session.
  std::uint64_t train_digest() const { return train_digest_; }
  // Returns a digest of the test set and the loss: what an evaluation's results depend on besides
  // the model. 0: there is no test set.
  std::uint64_t EvaluationDigest() const;
  // Without slots if rank 0 updates this rank's parameters, or the session only evaluates.
  Optimizer& optimizer() { return *optimizer_; }
  UpdateSite update_site() const { return update_site_; }
  bool shares_updates() const { return update_site_ == UpdateSite::kShares; }
  // Which of the parameters each rank updates for the others, by rank; later ranks none.
  const std::vector<FlatRange>& update_shares() const { return update_shares_; }
  // Requires: shares_updates().
  int rank() const { return rank_; }
  // No rank has all that a checkpoint holds: the model is cut, or the optimizer's state is sharded.
  bool is_divided() const { return stage_.count > 1 || shares_updates(); }
  // The bytes of slots and scratch that the optimizer of the rank with this share has. As for
  // Create.
  absl::StatusOr<std::size_t> OptimizerBytesOf(const FlatRange& share);

  // Where CentralStorage keeps the parameters on a host's device; null: in the back end's memory.
  RootMemory* root_memory() { return root_memory_.get(); }
  // True if this rank's parameters are rank 0's own memory, read in place.
  bool shares_parameters() const { return root_memory_ != nullptr && root_memory_->is_shared(); }
  SessionMemory Memory() const;

  // What a step sums over ranks: [gradients | states | StepTail]. On a host device, buffer() is
  // this memory. On another device, device_sums() is, and buffer() is where the sums pass through
  // the host if they must.
  GradientBuffer& buffer() { return *buffer_; }
  std::optional<DeviceSums> device_sums();
  std::vector<std::int64_t> LayerStarts();  // offsets in buffer(), ascending

  // True if the loss's scale follows the gradients: see LossScale.
  bool adapts_loss_scale() const { return training_.precision == api::Precision::kFloat16; }

  // The number of parts in which a rank computes its batch, one after the other: at most
  // gradientAccumulation, and no part is empty. The model's batch has the rows of one part.
  int parts() const { return parts_; }

  // Discards the steps that have begun but not ended, and lets the next steps update again. `gate`
  // holds the run's counts and loss scale up to now. Its loss scale is ignored unless the precision
  // is Float16.
  void OpenGate(UpdateGate gate = {.loss_scale = kInitialLossScale});

  // The parts of a step, in their order: see train_step.cc. All but EndStep queue work on the
  // device and return. BeginStep: `own` has what this rank adds to the totals besides loss and
  // correct. `loss_scale` is multiplied by that of the gate.
  void BeginStep(const UpdateSettings& settings, float loss_scale, const StepTail& own);
  // Copies a part of a batch into the model's input and the losses' labels (or targets) and
  // weights. The batch's samples are shared equally by as few parts as they need, so that none has
  // a single one while others have several. Rows beyond a part's own get weight 0.
  void Load(const Batch& batch, int part);
  // Adds the gradients of a part that is not the last to those of the parts before.
  void KeepGradients();
  // Adds the kept gradients to [offset, offset + floats) of those of the last part.
  void AddKeptGradients(std::int64_t offset, std::int64_t floats);
  // Writes this rank's share of the states, and the step's totals, behind the gradients.
  void OfferStatesAndTotals();
  // Updates the parameters and states if the sums have succeeded and are finite. `summed`: whether
  // the sums have succeeded, as far as the strategy knows; on a device with a queue it may be OK
  // although they fail later. EndStep returns the result. It leaves parameters that other ranks
  // update as they are: see TakeParameters.
  void Update(absl::Status summed);
  // OfferParameters copies the parameters that this rank updates over the gradients, whose sums
  // have been used by then; TakeParameters copies those that others update back.
  void OfferParameters();
  void TakeParameters();
  // A device with a queue waits for other ranks between two of its events. MarkPeerWait calls
  // `queue`, which queues that: before the step's Update or, for the next step, after it.
  // peer_waits: those of the oldest step without a result, in their order.
  struct PeerWait {
    std::shared_ptr<Event> begins, ends;
  };
  void MarkPeerWait(const std::function<void()>& queue);
  const std::vector<PeerWait>& peer_waits() const;
  // The first error that Update was given since OpenGate; OK if none.
  const absl::Status& sum_failure() const { return sum_failure_; }
  // The loss's totals over the parts since BeginStep. Blocks.
  LossTotals OwnTotals();
  // Blocks until the oldest step without a result has one. At most kMostStepsBegun may lack one.
  StepResult EndStep();

  // For a model that is cut into stages; stage_step.h uses these.
  const ModelStage& stage() const { return stage_; }
  // Neighbouring ranks are the stages of a pipeline. It reads as a rank does without stages.
  int PipelineOf(int rank) const { return rank / stage_.count; }
  // The most parts that are between their forward and backward passes.
  int parts_in_flight() const { return static_cast<int>(twins_.size()) + 1; }
  // Returns the model that computes a part. Each part in flight has its own; they share parameters.
  Model& model_of(int part);
  // Returns the sizes of this stage's messages. A message to the next stage has part_bytes(), which
  // say which samples the part has and hold their labels, and then the stage's output. One to the
  // stage before has the gradient of that one's output.
  StageTraffic stage_traffic() const;
  std::size_t part_bytes() const;
  // In the first stage: copies a part's samples into its model's input, and writes the part_bytes()
  // at the beginning of `message`.
  void LoadFirstStage(const Batch& batch, int part, std::span<std::byte> message);
  // In later stages: reads them from the beginning of `message`.
  void LoadLaterStage(int part, std::span<const std::byte> message);
  // Return the norm of the gradients that this process holds, of its stage's tensors, and its
  // totals of the step. Both block. Requires: BeginStep, and all parts' passes.
  double OwnGradientNorm();
  StepTail OwnTail();
  // Replaces both by those of all stages. Call it before Update.
  void TakeTotals(const StepTail& tail, double squared_norm);

  static constexpr int kMostStepsBegun = 2;
  // How many steps may begin before the first of them ends, so that a device with a queue does not
  // wait for the host. A host device has none in progress when the calls of a step return.
  // A stage has none either, because its host passes the parts on.
  std::int64_t steps_ahead() const {
    return backend_->IsHost() || stage_.count > 1 ? 1 : kMostStepsBegun;
  }

  // The evaluation loss's totals: sets them to zero, adds those of the part that was loaded and
  // computed last, and reads them. EndEvaluation blocks. If `metrics` names any, AddEvaluation
  // blocks, too, and adds the part's rows to them.
  void BeginEvaluation();
  void AddEvaluation(EvaluationMetrics& metrics);
  LossTotals EndEvaluation();

  // Queues, or replays, the work that is the same in every step. Update uses it, too.
  StepRecorder& recorder() { return *recorder_; }

  // Bound, like the evaluation's loss, to the model's logits and to the loaded batch's labels and
  // weights.
  LossOp& training_loss() { return *training_loss_; }

 private:
  // What the host uploads before a step.
  struct StepInput {
    float loss_scale = 0;
    UpdateSettings settings;
    LossTotals totals;
  };
  struct BegunStep {
    StepResult result;  // valid after the event
    std::shared_ptr<Event> done;
    std::vector<PeerWait> waits;
  };

  Session() = default;
  absl::Status DigestData();
  void DealSamples();
  std::shared_ptr<const Shards> ShardsOf(std::int64_t replicas) const;
  // How samples of bytes of this shape become the model's input. Requires: they are those that
  // OpenData has checked.
  static InputScaling ScalingOf(const api::DatasetSpec& spec, const Shape& sample);
  absl::Status PlanSteps(const SessionParts& parts, int world);
  absl::Status BuildModel(const SessionParts& parts);
  absl::Status MakeOptimizer(bool initializes_model);
  absl::Status BuildTwins(const std::vector<nlohmann::json>& layers, ModelOptions options);
  absl::Status AllocateSums(const SessionParts& parts);
  void AllocateBlock();
  Slice RowsOfPart(const Batch& batch, int part) const;
  StepContext LoadSamples(const Batch& batch, int part, Model& model);
  void FillLabels(const Batch& batch, int part);
  void MixLabels(const Batch& batch, std::int64_t first, std::int64_t rows);
  void UploadLabels();
  // The data set whose samples define the model's input.
  const Dataset& samples() const { return only_evaluates_ ? *test_data_ : *train_data_; }
  std::unique_ptr<LossOp> MakeLoss(double label_smoothing);
  void MakeLosses();
  UpdateMemory MemoryOfUpdate();
  bool mixes() const {
    const auto& augment = training_.dataset.augment;
    return !only_evaluates_ && augment && augment->mix_up;
  }
  float* summed_states() { return sums_ + model_->gradients().size(); }
  StepTail* tail() {
    return reinterpret_cast<StepTail*>(summed_states() + model_->states().size());
  }

  api::TrainingSpec training_;
  std::int64_t data_seed_ = 0;
  UpdateSite update_site_ = UpdateSite::kEveryRank;
  int rank_ = 0;
  std::vector<FlatRange> update_shares_;  // empty with kEveryRank
  bool only_evaluates_ = false;
  ModelStage stage_;
  StepPlan plan_;
  std::shared_ptr<const SampleGroups> groups_;  // null: all replicas deal from one order
  std::shared_ptr<const Shards> shards_;        // of plan_.world replicas
  std::int64_t total_steps_ = 0;
  std::unique_ptr<Dataset> train_data_, test_data_;   // the first is null if it only evaluates
  std::uint64_t train_digest_ = 0, test_digest_ = 0;  // see train_digest(); 0: without the set
  InputScaling input_scaling_ = InputScaling::ToUnit();
  int reading_threads_ = 1;
  std::unique_ptr<ThreadPool> readers_;  // those beside a loader's own
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<RootMemory> root_memory_;  // outlives the model, like the buffer
  // Outlives the model that is bound to it. Null if the session only evaluates, as sums_ is.
  std::unique_ptr<GradientBuffer> buffer_;
  Arena device_sums_;                 // unused with a host device
  float* sums_ = nullptr;             // device memory: buffer_'s or device_sums_'s
  std::unique_ptr<Stream> transfer_;  // null with a host device
  ModelDescription model_description_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<Model>> twins_;  // share the tensors of model_
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<std::uint32_t> update_digest_;  // of an optimizer whose ranks must compare it
  std::unique_ptr<LossOp> training_loss_, evaluation_loss_;  // the first as train_data_

  // The operands of OwnGradientNorm's decision, which is made for its norm alone.
  struct NormMemory {
    UpdateSettings settings;
    UpdateGate gate;
    OptimizerStep update;
    StepResult result;
    StepTail tail;
  };

  // Device memory beside the model's.
  Arena block_;
  struct {
    StepInput* input = nullptr;
    UpdateGate* gate = nullptr;
    bool* is_summed = nullptr;
    StepResult* result = nullptr;
    LossTotals* evaluation = nullptr;
    std::int32_t* labels = nullptr;   // a part's rows; null if no loss reads labels
    float* targets = nullptr;         // a part's rows,outputs; null if none reads targets
    float* weights = nullptr;         // a part's rows
    float* saved_states = nullptr;    // the states before the step, in case it is skipped
    float* kept_gradients = nullptr;  // the sum over the parts before the last; null with one part
    NormMemory* norm = nullptr;
  } device_;

  std::array<BegunStep, kMostStepsBegun> begun_;  // a ring
  int first_begun_ = 0, begun_count_ = 0;
  std::vector<PeerWait> peer_waits_;  // of the step that is begun next
  absl::Status sum_failure_;
  std::vector<std::int32_t> labels_;  // of a part, for the upload
  // A part's, too; empty if no loss reads targets. With mix-up, the training loss of classes does,
  // while that of the evaluation reads labels.
  std::vector<float> targets_;
  std::vector<float> weights_;
  std::vector<float> evaluated_outputs_;  // of a part; empty if no evaluation looks at them
  UpdateSettings settings_;               // of the step that was begun last
  std::int64_t outputs_ = 0;              // the model's outputs for one sample
  int parts_ = 1;
  std::unique_ptr<StepRecorder> recorder_;  // uses the memory above
};

// Returns a text that differs between losses whose evaluations cannot be compared.
std::string LossText(const api::TrainingSpec& training);
// The same for how the samples' pixels are normalized; empty: not at all.
std::string NormalizeText(const api::TrainingSpec& training);

}  // namespace lockstep::train
