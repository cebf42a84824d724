// The data sets of a session.
#include <fmt/format.h>

#include <string>

#include "api/v1/format_traits.h"
#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"
#include "trainer/data/augment.h"
#include "trainer/data/dataset_identity.h"
#include "trainer/data/formats/open_datasets.h"
#include "trainer/train/loss_kind.h"
#include "trainer/train/session.h"

namespace lockstep::train {
namespace {

// As in "uint8 [1,28,28]".
std::string ElementsOf(const Dataset& dataset) {
  return fmt::format("{} {}", DTypeName(dataset.element()), dataset.sample_shape().ToString());
}

// Whether what the job does to the pixels of its samples fits them.
absl::Status CheckPixels(const api::DatasetSpec& spec, const Dataset& data) {
  if (spec.augment) {
    LOCKSTEP_RETURN_IF_ERROR(CheckAugment(*spec.augment, data.sample_shape(), data.element()));
  }
  if (!spec.normalize) return absl::OkStatus();
  return CheckNormalize(*spec.normalize, data.sample_shape(), data.element());
}

}  // namespace

absl::Status CheckFiles(std::int64_t files, std::int64_t replicas) {
  if (files >= replicas) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "spec.training.dataset.autoShard: found File with {} training file{} for {} replicas, "
      "expected at least one file for each replica; Data needs no files",
      files, files == 1 ? "" : "s", replicas));
}

absl::StatusOr<TrainAndTest> Session::OpenData(const SessionOptions& options) {
  const api::TrainingSpec& training = options.training;
  const auto seed = static_cast<std::uint64_t>(options.data_seed.value_or(training.seed));
  const api::LossType loss = training.loss.type;
  const LabelKind labels = LabelKindOf(loss, training.dataset.format);
  if (options.only_evaluates) {
    TrainAndTest data;
    LOCKSTEP_ASSIGN_OR_RETURN(data.test, OpenTestSet(training.dataset, seed, labels));
    LOCKSTEP_RETURN_IF_ERROR(CheckLabels(loss, *data.test));
    LOCKSTEP_RETURN_IF_ERROR(CheckPixels(training.dataset, *data.test));
    return data;
  }
  const bool deals_files = training.dataset.auto_shard == api::AutoShard::kFile;
  if (deals_files && api::TraitsOf(training.dataset).files == api::FormatFiles::kOne) {
    LOCKSTEP_RETURN_IF_ERROR(CheckFiles(1, options.world));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      TrainAndTest data, OpenDatasets(training.dataset, training.evaluation.enabled, seed, labels));
  LOCKSTEP_RETURN_IF_ERROR(CheckLabels(loss, *data.train));
  LOCKSTEP_RETURN_IF_ERROR(CheckPixels(training.dataset, *data.train));
  if (data.test == nullptr) return data;
  LOCKSTEP_RETURN_IF_ERROR(CheckLabels(loss, *data.test));
  if (data.test->targets() != data.train->targets()) {
    return absl::DataLossError(fmt::format(
        "{}: labels of test samples have {} numbers, expected {}, as those of training samples",
        training.dataset.path, data.test->targets(), data.train->targets()));
  }
  if (data.test->classes() > data.train->classes()) {
    return absl::DataLossError(
        fmt::format("{} of a test sample, expected 0 to {}, the classes of the training samples",
                    PlaceBeyond(data.train->classes(), *data.test), data.train->classes() - 1));
  }
  if (data.test->sample_shape() == data.train->sample_shape() &&
      data.test->element() == data.train->element()) {
    return data;
  }
  return absl::DataLossError(
      fmt::format("{}: test samples are {}, expected {} as the training samples",
                  training.dataset.path, ElementsOf(*data.test), ElementsOf(*data.train)));
}

// With Off, an epoch has a copy of the set for each replica.
void Session::DealSamples() {
  const api::AutoShard policy = training_.dataset.auto_shard;
  if (policy == api::AutoShard::kOff && plan_.world > 1) {
    groups_ = std::make_shared<SampleGroups>(SampleGroups::Copies(plan_.examples, plan_.world));
    plan_.examples *= plan_.world;
  } else if (policy == api::AutoShard::kFile) {
    groups_ = std::make_shared<SampleGroups>(SampleGroups::FilesOf(*train_data_));
    plan_.deals_files = true;
  }
  shards_ = ShardsOf(plan_.world);
}

// Null for one replica, whose samples are all.
std::shared_ptr<const Shards> Session::ShardsOf(std::int64_t replicas) const {
  if (groups_ == nullptr || replicas == 1) return nullptr;
  StepPlan plan = plan_;
  plan.world = static_cast<int>(replicas);
  return std::make_shared<Shards>(groups_, plan);
}

LoaderOptions Session::TrainingReads(int rank, const BegunEpoch& begun) const {
  const bool is_kept = plan_.deals_files && begun.epoch >= 0;
  return {.plan = plan_,
          .rank = rank,
          .seed = static_cast<std::uint64_t>(training_.seed),
          .shuffle = training_.dataset.shuffle,
          .prefetch = training_.dataset.prefetch,
          .threads = reading_threads(),
          .augment = training_.dataset.augment,
          .shards = shards_,
          .begun_shards = is_kept ? ShardsOf(begun.replicas) : nullptr,
          .begun_epoch = is_kept ? begun.epoch : -1,
          .end_step = total_steps_};
}

absl::Status Session::DigestData() {
  const std::string normalize = NormalizeText(training_);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t train, DigestOfSamples(*train_data_));
  train_digest_ = Digest(normalize, train);
  if (test_data_ == nullptr) return absl::OkStatus();
  LOCKSTEP_ASSIGN_OR_RETURN(const std::uint64_t test, DigestOfSamples(*test_data_));
  test_digest_ = Digest(normalize, test);
  return absl::OkStatus();
}

// (x / 255 - mean) / std, in the form of InputScaling.
InputScaling Session::ScalingOf(const api::DatasetSpec& spec, const Shape& sample) {
  if (!spec.normalize) return InputScaling::ToUnit();
  LOCKSTEP_CHECK(spec.normalize->mean.size() <= InputScaling::kMostChannels,
                 "session: {} channels are normalized", spec.normalize->mean.size());
  InputScaling scaling{.channels = sample[0], .plane = sample[1] * sample[2]};
  for (std::size_t channel = 0; channel < spec.normalize->mean.size(); ++channel) {
    scaling.center[channel] = static_cast<float>(255 * spec.normalize->mean[channel]);
    scaling.factor[channel] = static_cast<float>(1 / (255 * spec.normalize->std[channel]));
  }
  return scaling;
}

std::string Session::Fingerprint() const {
  const std::string update =
      update_digest_ ? fmt::format("digestOfTheFirstUpdate={:08x};", *update_digest_) : "";
  return fmt::format(
      "{}trainSamples={};testSamples={};sample={};classes={};labelNumbers={};trainDigest={:016x};"
      "testDigest={:016x};{}",
      update, train_data_->size(), test_data_ ? test_data_->size() : 0, ElementsOf(*train_data_),
      train_data_->classes(), train_data_->targets(), train_digest_, test_digest_,
      model_->LayoutFingerprint());
}

std::uint64_t Session::EvaluationDigest() const {
  if (test_data_ == nullptr) return 0;
  return Digest(fmt::format("{} of {}, {:016x}, {}{}", test_data_->size(), ElementsOf(*test_data_),
                            test_digest_, LossText(training_),
                            training_.ema ? ", of the average" : ""));
}

std::string NormalizeText(const api::TrainingSpec& training) {
  if (!training.dataset.normalize) return "";
  return api::TrainingSpecToJson(training)["dataset"]["normalize"].dump();
}

std::string LossText(const api::TrainingSpec& training) {
  return api::TrainingSpecToJson(training)["loss"].dump();
}

}  // namespace lockstep::train
