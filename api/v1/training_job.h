// TrainingJob v1: what a user writes (spec) and what the operator writes (status). Plain values;
// absent means "not set by the user" until defaults.h has filled it in.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "api/v1/role.h"
#include "api/v1/run_policy.h"
#include "api/v1/shared_json.h"
#include "base/clock.h"

namespace lockstep::api {

using Json = nlohmann::json;

struct OwnerReference {
  std::string api_version, kind, name, uid;
  bool controller = false;
  bool operator==(const OwnerReference&) const = default;
};

struct ObjectMeta {
  std::string name;
  std::string namespace_name = "default";
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  std::map<std::string, std::string> labels, annotations;
  std::vector<OwnerReference> owner_references;
  std::optional<Time> creation_time, deletion_time;
  bool operator==(const ObjectMeta&) const = default;
};

enum class StrategyType {
  kMirrored,
  kMultiWorkerMirrored,
  kParameterServer,
  kCentralStorage,
  kIndependent
};
enum class Communication { kAuto, kRing, kNccl };
enum class ParameterServerMode { kAsync, kSync };
enum class ParameterPlacement { kBySize, kRoundRobin };
struct ParameterServerSpec {
  ParameterServerMode mode = ParameterServerMode::kAsync;
  std::int64_t max_staleness = 16;
  int backup_workers = 0;
  ParameterPlacement placement = ParameterPlacement::kBySize;
  bool operator==(const ParameterServerSpec&) const = default;
};
enum class ControllerDevice { kCpu, kGpu };
struct CentralStorageSpec {
  ControllerDevice controller_device = ControllerDevice::kCpu;
  bool operator==(const CentralStorageSpec&) const = default;
};
// What of the training's state is divided among the replicas instead of being held by each:
// nothing, or the optimizer's state, as in stage 1 of ZeRO (Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", 2020).
enum class Sharding { kNone, kZero1 };
struct StrategySpec {
  StrategyType type = StrategyType::kMultiWorkerMirrored;
  std::optional<int> processes_per_pod;
  // Into how many stages the model is cut, each computed and held by a process of its own: so many
  // processes, of neighbouring ranks, form a pipeline, and a replica is then a pipeline.
  int stages = 1;
  Sharding sharding = Sharding::kNone;
  Communication communication = Communication::kAuto;
  std::optional<ParameterServerSpec> parameter_server;
  std::optional<CentralStorageSpec> central_storage;
  bool operator==(const StrategySpec&) const = default;
};

struct ModelSpec {
  std::string name;                   // "mlp", "resnet-50", …; empty with `layers`
  SharedJson layers = Json::array();  // Keras-Sequential: [{"type": "Dense", "units": 10}, …]
  bool zero_gamma = false;            // of a ResNet: residual blocks begin as their shortcuts
  bool operator==(const ModelSpec&) const = default;
};

enum class DatasetFormat { kIdx, kCifar, kNpy, kCsv, kTfRecord, kImageFolder, kSynthetic };
enum class Interpolation { kBilinear, kNearest, kArea };
enum class RandomFlip { kNone, kHorizontal };
// How the replicas divide the training samples: the policies of tf.data's AutoShardPolicy.
enum class AutoShard { kAuto, kData, kFile, kOff };
struct SyntheticSpec {  // its classes are separable, so that a model can visibly learn
  std::int64_t train_examples = 4096, test_examples = 512;
  std::vector<std::int64_t> shape = {1, 28, 28};  // C,H,W
  int classes = 10;
  bool operator==(const SyntheticSpec&) const = default;
};
struct NpySpec {
  bool channels_last = false;  // arrays of four dimensions are N,H,W,C, not N,C,H,W
  bool operator==(const NpySpec&) const = default;
};
struct CsvSpec {
  std::string label_column = "label";
  bool operator==(const CsvSpec&) const = default;
};
struct TfRecordSpec {
  std::string train_files = "*train*", test_files = "*test*";  // patterns of the shell
  std::string feature = "image", label = "label";              // names in tf.train.Example
  std::vector<std::int64_t> shape;  // of raw pixels (H,W,C) or floats (C,H,W); empty: encoded
  int classes = 0;                  // 0: one more than the largest label
  bool operator==(const TfRecordSpec&) const = default;
};
struct RandomCropSpec {
  int padding = 4;  // pixels of zeros at each edge
  bool operator==(const RandomCropSpec&) const = default;
};
struct CutoutSpec {
  int size = 16;  // pixels, of a square's side
  bool operator==(const CutoutSpec&) const = default;
};
struct MixUpSpec {
  double alpha = 0.2;  // of the beta distribution of a sample's own weight
  bool operator==(const MixUpSpec&) const = default;
};
struct AugmentSpec {  // of training images
  RandomFlip random_flip = RandomFlip::kNone;
  std::optional<RandomCropSpec> random_crop;
  std::optional<CutoutSpec> cutout;
  std::optional<MixUpSpec> mix_up;  // with a partner, after the other changes of both
  bool operator==(const AugmentSpec&) const = default;
};
// What each channel of an image has subtracted, and is divided by after that. Of as many channels
// as the images have.
struct NormalizeSpec {
  std::vector<double> mean, std;  // of pixels in [0, 1]; both are set
  bool operator==(const NormalizeSpec&) const = default;
};
struct DatasetSpec {
  DatasetFormat format = DatasetFormat::kIdx;
  std::string path;  // a folder; empty for synthetic data
  bool shuffle = true;
  AutoShard auto_shard = AutoShard::kAuto;  // Auto is Data
  bool cache = true;                        // keep decoded samples in memory
  // Where decoded images are kept on disk, for later epochs and other processes; empty: nowhere.
  std::string cache_directory;
  int prefetch = 2;  // batches that a thread prepares in advance; 0: none
  std::optional<SyntheticSpec> synthetic;
  std::optional<NpySpec> npy;
  std::optional<CsvSpec> csv;
  // The share of the training files' samples that is the test set; 0: the test set has its files.
  double validation_fraction = 0.0;
  // What encoded images become: height and width; the channels, 1 (gray) or 3 (RGB).
  std::vector<std::int64_t> image_size;
  int image_channels = 3;
  Interpolation interpolation = Interpolation::kBilinear;
  std::optional<TfRecordSpec> tfrecord;
  int threads = 0;  // that read the samples of a batch; 0: as many as compute
  std::optional<AugmentSpec> augment;
  std::optional<NormalizeSpec> normalize;  // absent: pixels are in [0, 1]
  bool operator==(const DatasetSpec&) const = default;
};

struct BatchSizeSpec {  // exactly one is set
  std::optional<std::int64_t> global, per_replica;
  bool operator==(const BatchSizeSpec&) const = default;
};

enum class ScheduleType { kConstant, kCosine, kStep, kPolynomial, kExponential, kOneCycle };
struct LearningRateScheduleSpec {
  ScheduleType type = ScheduleType::kConstant;
  std::int64_t warmup_steps = 0;            // linear, from 0; not with OneCycle
  double final_fraction = 0.0;              // of learningRate at the last step; Cosine, Polynomial
  double factor = 0.1;                      // of the rate every every_steps; Step, Exponential
  std::optional<std::int64_t> every_steps;  // set with Step, Exponential
  double power = 1.0;                       // Polynomial
  bool operator==(const LearningRateScheduleSpec&) const = default;
};

enum class LossType {
  kSparseCategoricalCrossentropy,
  kCategoricalCrossentropy,
  kBinaryCrossentropy,
  kMeanSquaredError,
  kMeanAbsoluteError,
  kHuber
};
struct LossSpec {
  LossType type = LossType::kSparseCategoricalCrossentropy;
  // Crossentropies: whether the last layer gives logits; absent: unless it ends in their activation
  std::optional<bool> from_logits;
  double delta = 1.0;  // Huber: the error from which the loss is linear
  bool operator==(const LossSpec&) const = default;
};
// False for the losses of regression, whose labels are any numbers and which have no accuracy.
bool IsCrossentropy(LossType type);

struct OptimizerSpec {
  std::string name = "Adam";  // or SGD, RMSprop, Adagrad, LARS, LAMB, Muon; defaults are Keras'
  double learning_rate = 0.001;
  double momentum = 0.0;                   // SGD, RMSprop, LARS
  bool nesterov = false;                   // SGD, LARS; needs momentum
  double beta1 = 0.9, beta2 = 0.999;       // Adam, LAMB; Muon, where it is AdamW
  double rho = 0.9;                        // RMSprop
  double epsilon = 1e-7;                   // all but SGD and LARS
  double initial_accumulator_value = 0.1;  // Adagrad
  double trust_coefficient = 0.001;        // LARS
  double muon_momentum = 0.95;             // Muon, whose default is another than the others'
  bool muon_nesterov = true;               // Muon
  double adam_lr_ratio = 1;                // Muon: AdamW's share of the learning rate
  // Muon updates parameters whose name contains one of these by AdamW, as all but matrices.
  std::vector<std::string> exclude_layers;
  double weight_decay = 0.0;
  // Parameters whose name contains one of these do not decay; LARS and LAMB do not scale their
  // steps either.
  std::vector<std::string> weight_decay_exclude;
  double global_clip_norm = 0.0;  // of all gradients together; 0: no clipping
  bool operator==(const OptimizerSpec&) const = default;
};

// Whether the optimizer multiplies matrices: Muon. Then it needs to know their shapes.
bool MultipliesMatrices(const OptimizerSpec& optimizer);
// Whether the optimizer scales each tensor's step by norms of the whole tensor: LARS, LAMB.
bool MeasuresTensors(const OptimizerSpec& optimizer);
// Whether one process must update all of a tensor: either of these.
bool NeedsWholeTensors(const OptimizerSpec& optimizer);

struct InitialWeightsSpec {
  std::string path;  // a safetensors file; empty: the weights are random
  // Tensors of the model whose name contains one of these are not taken from the file.
  std::vector<std::string> exclude;
  bool operator==(const InitialWeightsSpec&) const = default;
};

enum class Precision { kFloat32, kTF32, kBFloat16, kFloat16 };
// Which activations are computed again for the backward pass instead of being kept.
enum class ActivationCheckpointing { kNone, kSelective, kFull };

// Which number of an evaluation says whether it is better than another: its loss, what is measured
// beside that, or a TestMetric, which has the same name.
enum class BestMetric {
  kAccuracy,
  kLoss,
  kMeanAbsoluteError,
  kTopKCategoricalAccuracy,
  kAuc,
  kPrecision,
  kRecall,
  kMeanSquaredError,
  kRootMeanSquaredError
};
// What is measured beside a loss: the mean absolute error with regression, else the accuracy.
BestMetric MetricOf(LossType type);
struct CheckpointSpec {
  std::string directory;           // empty: no checkpoints
  std::int64_t every_steps = 200;  // 0: only at the end
  int keep = 3;
  std::optional<BestMetric> keep_best;  // by the Evaluator; absent: it keeps none
  // The file to write the trained model to at the end, an .onnx or .safetensors; empty: none.
  std::string export_to;
  bool operator==(const CheckpointSpec&) const = default;
};
struct SummariesSpec {
  std::string directory;  // TensorBoard event files; empty: none
  std::int64_t every_steps = 50;
  bool operator==(const SummariesSpec&) const = default;
};
// What an evaluation can measure beside the loss and its MetricOf. Names and meanings are Keras'.
enum class TestMetric {
  kTopKCategoricalAccuracy,  // with losses of classes
  kAuc,                      // of ROC; this and the next two with a binary loss
  kPrecision,
  kRecall,
  kMeanSquaredError,  // this and the next one with losses of regression
  kRootMeanSquaredError
};
// Those that were measured and are finite.
using TestMetrics = std::map<TestMetric, double>;
// Those that have a meaning with a loss.
std::vector<TestMetric> TestMetricsOf(LossType type);

struct EvaluationSpec {
  bool enabled = true;              // on the test set
  std::int64_t every_epochs = 1;    // and always at the end
  std::vector<TestMetric> metrics;  // a set
  int top_k = 5;                    // TopKCategoricalAccuracy
  bool operator==(const EvaluationSpec&) const = default;
};
struct EarlyStoppingSpec {  // the run ends before its last step if evaluations improve no more
  BestMetric metric = BestMetric::kLoss;
  int patience = 1;                   // evaluations in a row without improvement that end the run
  double min_delta = 0.0;             // an improvement on the best so far is more than this
  std::int64_t start_from_epoch = 0;  // the evaluations of so many epochs count for nothing
  bool restore_best = false;          // the run ends with the parameters of its best evaluation
  bool operator==(const EarlyStoppingSpec&) const = default;
};

// An exponential moving average of the parameters, which is evaluated and exported instead of them.
struct EmaSpec {
  double decay = 0.999;  // what of the average stays after a step; in (0, 1)
  bool operator==(const EmaSpec&) const = default;
};

struct TrainingSpec {
  ModelSpec model;
  DatasetSpec dataset;
  BatchSizeSpec batch_size;
  // Micro-batches of a replica's samples of a step, which run one by one.
  int gradient_accumulation = 1;
  std::optional<std::int64_t> epochs, steps;  // exactly one is set
  std::int64_t seed = 1;
  InitialWeightsSpec initial_weights;
  LossSpec loss;
  double label_smoothing = 0.0;  // of the training loss, a crossentropy; in [0, 1)
  OptimizerSpec optimizer;
  LearningRateScheduleSpec learning_rate_schedule;
  std::optional<EmaSpec> ema;          // absent: none
  std::int64_t max_skipped_steps = 0;  // in a row, because of a loss or gradient that is not finite
  Precision precision = Precision::kFloat32;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kNone;
  CheckpointSpec checkpoint;
  SummariesSpec summaries;
  EvaluationSpec evaluation;
  std::optional<EarlyStoppingSpec> early_stopping;  // absent: never
  std::int64_t rendezvous_timeout_seconds = 300;
  SharedJson variants = Json::array();  // Independent: what each process changes; see variants.h
  bool operator==(const TrainingSpec&) const = default;
};

enum class RestartPolicy { kAlways, kOnFailure, kNever, kExitCode };
enum class DependencyStatus {
  kReady,    // the role's replicas are ready, or have succeeded
  kComplete  // they have succeeded
};
// What a role waits for before its first pod of an attempt is made. Both fields are required.
struct DependencySpec {
  std::optional<Role> role;
  std::optional<DependencyStatus> status;
  bool operator==(const DependencySpec&) const = default;
};
struct ReplicaSpec {
  int replicas = 1;
  std::optional<RestartPolicy> restart_policy;
  SharedJson tmpl;  // a PodTemplateSpec, as written; may be empty with `training`
  std::vector<DependencySpec> depends_on = {};  // all of them
  bool operator==(const ReplicaSpec&) const = default;
};

struct ElasticSpec {
  // The range of the number of workers. Only torchrun, and TensorFlow with parameter servers, start
  // with fewer than ReplicaSpec::replicas; what is told a fixed number waits for all.
  int min_replicas = 1, max_replicas = 1;
  bool operator==(const ElasticSpec&) const = default;
};
enum class RestartScope { kInPlace, kGang, kPod };
enum class SuccessPolicy { kChiefOrWorker0, kAllWorkers };
enum class NetworkPolicy { kIsolated, kNone };
enum class TokenMount { kMounted, kNone };
struct TrainingJobSpec {
  bool suspend = false;
  std::string managed_by;
  std::optional<StrategySpec> strategy;
  std::optional<TrainingSpec> training;
  std::map<Role, ReplicaSpec> replica_specs;
  std::optional<ElasticSpec> elastic;
  std::optional<RestartScope> restart_scope;
  std::optional<SuccessPolicy> success_policy;
  std::optional<NetworkPolicy> network_policy;  // absent: kIsolated with `training`, else kNone
  std::optional<TokenMount> job_token;          // absent: kMounted with `training`, else kNone
  RunPolicySpec run_policy;
  bool operator==(const TrainingJobSpec&) const = default;
};
// With an Evaluator, the bundled trainer's other replicas do not evaluate.
bool HasEvaluator(const TrainingJobSpec& spec);

enum class ConditionStatus { kTrue, kFalse, kUnknown };
struct Condition {   // metav1.Condition
  std::string type;  // Created Running Restarting Suspended Succeeded Failed
  ConditionStatus status = ConditionStatus::kUnknown;
  std::int64_t observed_generation = 0;
  Time last_transition_time;
  std::string reason, message;
  bool operator==(const Condition&) const = default;
};
struct ReplicaStatus {
  int desired = 0, active = 0, ready = 0, succeeded = 0, failed = 0;
  bool operator==(const ReplicaStatus&) const = default;
};
struct RestartCounts {
  int application = 0, disruption = 0;
  int since_progress = 0;  // consecutive restarts of both kinds without progress
  int evaluator = 0;       // of the Evaluator by its own failures, which no budget bounds
  bool operator==(const RestartCounts&) const = default;
};
struct Progress {
  std::int64_t step = 0, total_steps = 0;
  double epoch = 0;                      // fractional: 1.5 is half-way through the second epoch
  std::optional<double> loss, accuracy;  // mean since the epoch's start; absent if not finite
  std::optional<double> test_accuracy, test_loss;
  // Instead of accuracies if the loss is one of regression.
  std::optional<double> mean_absolute_error, test_mean_absolute_error;
  TestMetrics test_metrics;  // those that EvaluationSpec::metrics names
  double examples_per_second = 0;
  std::optional<double> goodput, estimated_remaining_seconds;
  std::int64_t last_checkpoint_step = -1;  // -1: none
  // Samples that the bundled trainer's epochs so far left out, or used more than once; only if
  // there are any, which is a bug.
  std::optional<std::int64_t> samples_lost, samples_duplicated;
  std::optional<Time> update_time;
  bool operator==(const Progress&) const = default;
};
// How a process of an Independent job has ended.
struct VariantResult {
  int index = 0;  // of the variant
  std::string name;
  bool diverged = false;  // its loss or parameters became infinite or NaN
  std::int64_t step = 0;
  std::optional<double> loss, accuracy;  // as in Progress
  std::optional<double> test_loss, test_accuracy;
  std::optional<double> mean_absolute_error, test_mean_absolute_error;  // as in Progress
  TestMetrics test_metrics;
  bool operator==(const VariantResult&) const = default;
};
struct Failure {
  std::string role;
  int index = 0;
  std::string node;
  int exit_code = 0;
  std::string reason, message;
  bool operator==(const Failure&) const = default;
};
struct TrainingJobStatus {
  std::string state;
  std::vector<Condition> conditions;
  std::int64_t observed_generation = 0;
  std::optional<Time> start_time, completion_time, next_retry_time;
  int attempt = 0;
  std::vector<int> completed_indexes;
  std::vector<int> completed_helpers;  // PS replicas that serve nobody, likewise
  std::vector<Role> started_roles;     // those with dependsOn that no longer wait in this attempt
  std::vector<Role> running_roles;     // those that have been up in it while others still waited
  // The number of workers that the group has, if a pod of this attempt was created for another one.
  std::optional<int> group_workers;
  std::vector<std::string>
      counted_pods;  // uids of existing pods: lost ones, counted in `restarts`, and surplus ones
  std::string selector, ready_replicas;
  int restart_count = 0;
  std::map<Role, ReplicaStatus> replica_statuses;
  RestartCounts restarts;
  std::optional<Progress> progress;
  std::vector<VariantResult> variants;  // those that have ended, by index
  std::optional<Failure> failure;
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  ObjectMeta metadata;
  TrainingJobSpec spec;
  TrainingJobStatus status;
  bool operator==(const TrainingJob&) const = default;
};

// Parses strictly. Returns InvalidArgument for an unknown field, a wrong type or an unknown enum
// value, with one line per error: "spec.training.epochs: found "two", expected an integer of at
// least 1". Does not check fields under replicaSpecs.*.template.
absl::StatusOr<TrainingJob> TrainingJobFromJson(const Json& json);
// Parses an object from an API server whose schema may have another version, so it may have fields
// that are unknown here, or numbers that are too large here. Ignores such fields and clamps such
// integers to their range. Other errors as above.
absl::StatusOr<TrainingJob> TrainingJobFromServer(const Json& json);
Json TrainingJobToJson(const TrainingJob& job);

// Read one section, as in LOCKSTEP_CONFIG and LOCKSTEP_STRATEGY. Errors: TrainingJobFromJson's.
absl::StatusOr<TrainingSpec> TrainingSpecFromJson(const Json& json);
Json TrainingSpecToJson(const TrainingSpec& training);
absl::StatusOr<StrategySpec> StrategySpecFromJson(const Json& json);
Json StrategySpecToJson(const StrategySpec& strategy);

}  // namespace lockstep::api
