#include "trainer/plan/plan_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "base/check.h"
#include "base/status.h"
#include "trainer/data/augment.h"
#include "trainer/data/formats/open_datasets.h"
#include "trainer/plan/process_memory.h"
#include "trainer/train/loss_kind.h"

namespace lockstep::train {
namespace {

class DescribedDataset final : public Dataset {
 public:
  explicit DescribedDataset(DataFacts facts) : facts_(std::move(facts)) {}
  std::int64_t size() const override { return facts_.samples.value_or(1); }
  const Shape& sample_shape() const override { return facts_.shape; }
  DType element() const override { return facts_.element; }
  std::int64_t classes() const override { return facts_.classes; }
  std::int64_t targets() const override { return facts_.targets; }
  bool InMemory() const override { return facts_.in_memory; }
  absl::StatusOr<std::int32_t> Read(std::int64_t index, std::span<std::uint8_t>) const override {
    LOCKSTEP_CHECK(false, "sample {} of a data set that is only described", index);
  }

 private:
  const DataFacts facts_;
};

DataFacts FactsOf(const Dataset& data) {
  return {.samples = data.size(),
          .shape = data.sample_shape(),
          .element = data.element(),
          .classes = data.classes(),
          .targets = data.targets(),
          .in_memory = data.InMemory()};
}

std::optional<Shape> FixedShape(const api::DatasetSpec& spec) {
  const auto shape = api::TraitsOf(spec).sample_shape;
  return shape ? std::optional(Shape(*shape)) : std::nullopt;
}

std::optional<std::int64_t> FixedClasses(const api::TrainingSpec& training) {
  const api::DatasetSpec& spec = training.dataset;
  const api::FormatTraits traits = api::TraitsOf(spec);
  const bool has_one = traits.labels == api::FormatLabels::kNumber ||
                       traits.labels == api::FormatLabels::kClassOrShare;
  const bool is_number = LabelKindOf(training.loss.type, spec.format) == LabelKind::kNumbers;
  if (has_one && is_number) return 1;
  return traits.classes;
}

// Does not count the training samples that are held out as the test set.
std::optional<std::int64_t> FixedSamples(const api::DatasetSpec& spec, Split split) {
  if (!api::TraitsOf(spec).is_generated) return std::nullopt;
  const api::SyntheticSpec synthetic = spec.synthetic.value_or(api::SyntheticSpec{});
  if (split == Split::kTest) return synthetic.test_examples;
  const std::int64_t all = synthetic.train_examples;
  if (spec.validation_fraction <= 0 || all < 2) return all;
  const auto share = std::llround(spec.validation_fraction * static_cast<double>(all));
  return all - std::clamp<std::int64_t>(share, 1, all - 1);  // as DivideDataset
}

constexpr char kUnknownTestSamples[] =
    "test samples that are kept in memory are not counted: their number is not known before the "
    "data set is opened";

std::size_t BytesKept(const api::DatasetSpec& spec, const DataFacts& facts, std::int64_t samples) {
  return BytesKept(spec, facts.shape, facts.element, samples);
}

// The number of all samples, given that of the training samples: those held out for the test set
// are kept, too.
double WithHeldOut(const api::DatasetSpec& spec, std::int64_t samples) {
  return static_cast<double>(samples) / (1 - spec.validation_fraction);
}

bool DealsFiles(const api::DatasetSpec& spec) {
  return spec.auto_shard == api::AutoShard::kFile;
}

std::optional<std::int64_t> FixedFiles(const api::DatasetSpec& spec, const DataFacts& facts) {
  const api::FormatFiles files = api::TraitsOf(spec).files;
  if (files == api::FormatFiles::kEach) return facts.samples;
  return files == api::FormatFiles::kOne ? std::optional<std::int64_t>(1) : std::nullopt;
}

// Adds the tables that say whose the files are. An epoch that has begun with another number of
// replicas has its own until it ends.
absl::StatusOr<PlannedData> WithDealt(const SessionOptions& options,
                                      absl::StatusOr<PlannedData> data) {
  const api::DatasetSpec& spec = options.training.dataset;
  if (!data.ok() || !DealsFiles(spec)) return data;
  const std::optional<std::int64_t> files = data->train.files;
  if (files) LOCKSTEP_RETURN_IF_ERROR(CheckFiles(*files, options.world));
  if (!data->train.samples && data->uncounted.empty() &&
      api::TraitsOf(spec).files == api::FormatFiles::kEach) {
    data->uncounted = "the tables of files are not counted; give the number of samples (--samples)";
  }
  if (!files || !data->train.samples) return data;
  const DealtBytes bytes =
      BytesOfDealt(*files, *data->train.samples, spec.validation_fraction == 0);
  data->bytes += static_cast<std::size_t>(bytes.groups + 2 * bytes.shards);
  return data;
}

// Counts what a replica will keep of data sets that are not opened.
void CountKept(const api::DatasetSpec& spec, PlannedData& data) {
  if (BytesKept(spec, data.train, 1) == 0) return;
  if (!data.train.samples) {
    data.uncounted =
        "samples that are kept in memory are not counted; give their number (--samples)";
    return;
  }
  data.bytes = BytesKept(spec, data.train, std::llround(WithHeldOut(spec, *data.train.samples)));
  if (!data.test || spec.validation_fraction > 0) return;
  if (data.test->samples) {
    data.bytes += BytesKept(spec, *data.test, *data.test->samples);
  } else {
    data.uncounted = kUnknownTestSamples;
  }
}

// A set whose number of samples is not known is taken for a small one.
bool WillBeInMemory(const api::DatasetSpec& spec, const DataFacts& facts) {
  const std::int64_t samples = facts.samples.value_or(1);
  return WillBeInMemory(spec, facts.shape, facts.element, std::llround(WithHeldOut(spec, samples)));
}

// Test samples as the job fixes them: like the training samples, but for their number.
DataFacts DescribedTest(const api::DatasetSpec& spec, DataFacts train) {
  if (spec.validation_fraction >
      0) {  // held out of the training set: CountKept counts them with it
    train.samples.reset();
    return train;
  }
  train.samples = FixedSamples(spec, Split::kTest);
  train.in_memory = WillBeInMemory(spec, train);
  return train;
}

absl::StatusOr<PlannedData> Describe(const api::TrainingSpec& training, const GivenData& given) {
  const auto shape = given.shape ? given.shape : FixedShape(training.dataset);
  const auto classes = given.classes ? given.classes : FixedClasses(training);
  if (!shape || !classes) {
    return absl::NotFoundError(fmt::format(
        "spec.training.dataset: format {} fixes no {}: the data set has to be opened, "
        "or {} given",
        api::NameOf(training.dataset.format), shape ? "number of classes" : "shape of a sample",
        shape ? "--classes" : "--sample-shape"));
  }
  // Beyond these limits, sums of bytes overflow. No model reads so large a sample.
  constexpr double kMostElements = 2147483647, kMostElementsOfAll = 0x1p58;
  double elements = 1;
  for (const std::int64_t extent : shape->dims()) elements *= static_cast<double>(extent);
  if (elements > kMostElements) {
    return absl::InvalidArgumentError(fmt::format(
        "--sample-shape: found {:.4g} elements, expected at most {:.0f}", elements, kMostElements));
  }
  if (given.samples &&
      WithHeldOut(training.dataset, *given.samples) * elements > kMostElementsOfAll) {
    return absl::InvalidArgumentError(fmt::format(
        "--samples: found {} samples of {:.0f} elements, expected at most {:.4g} elements in all, "
        "with the samples that are held out",
        *given.samples, elements, kMostElementsOfAll));
  }
  const std::optional<DType> element = ElementOf(training.dataset);
  if (training.dataset.augment) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckAugment(*training.dataset.augment, *shape, element.value_or(DType::kUInt8)));
  }
  if (training.dataset.normalize) {
    LOCKSTEP_RETURN_IF_ERROR(
        CheckNormalize(*training.dataset.normalize, *shape, element.value_or(DType::kUInt8)));
  }
  PlannedData data;
  data.train = {
      .samples = given.samples ? given.samples : FixedSamples(training.dataset, Split::kTrain),
      .shape = *shape,
      .element = element.value_or(DType::kFloat32)};  // the larger one
  data.train.in_memory = WillBeInMemory(training.dataset, data.train);
  const bool is_number =
      LabelKindOf(training.loss.type, training.dataset.format) == LabelKind::kNumbers;
  (is_number ? data.train.targets : data.train.classes) = *classes;
  if (training.evaluation.enabled) data.test = DescribedTest(training.dataset, data.train);
  CountKept(training.dataset, data);
  if (DealsFiles(training.dataset)) data.train.files = FixedFiles(training.dataset, data.train);
  return data;
}

}  // namespace

std::unique_ptr<Dataset> DatasetOf(const DataFacts& facts) {
  return std::make_unique<DescribedDataset>(facts);
}

absl::StatusOr<PlannedData> PlanData(const SessionOptions& options, const GivenData& given) {
  const api::TrainingSpec& training = options.training;
  if (!given.empty()) return WithDealt(options, Describe(training, given));
  const ProcessMemory before = ReadTrimmedMemory();
  const auto opened = Session::OpenData(options);
  if (absl::IsNotFound(opened.status())) {
    absl::StatusOr<PlannedData> described = WithDealt(options, Describe(training, given));
    if (described.ok() || absl::IsInvalidArgument(described.status())) return described;
    return absl::NotFoundError(fmt::format("{}\n{}", std::string(opened.status().message()),
                                           std::string(described.status().message())));
  }
  if (!opened.ok()) return opened.status();
  PlannedData data{.train = FactsOf(*opened->train)};
  if (opened->test != nullptr) data.test = FactsOf(*opened->test);
  data.is_opened = !api::TraitsOf(training.dataset).is_generated;
  data.bytes = GrowthSince(before).writable;
  if (!DealsFiles(training.dataset)) return data;
  data.train.files = SampleGroups::FilesOf(*opened->train).count();
  return WithDealt(options, std::move(data));
}

absl::StatusOr<PlannedData> PlanTestData(const SessionOptions& options,
                                         const PlannedData& trained) {
  LOCKSTEP_CHECK(options.only_evaluates, "plan: the session of an Evaluator would train");
  const api::DatasetSpec& spec = options.training.dataset;
  PlannedData data{.train = trained.train, .is_opened = trained.is_opened};
  if (trained.is_opened) {
    const ProcessMemory before = ReadTrimmedMemory();
    const auto opened = Session::OpenData(options);
    if (opened.ok()) {
      data.test = FactsOf(*opened->test);
      data.bytes = GrowthSince(before).writable;
      return data;
    }
    if (!absl::IsNotFound(opened.status())) return opened.status();
  }
  data.test = DescribedTest(spec, trained.train);
  if (spec.validation_fraction > 0) {
    CountKept(spec, data);  // the test set is a part of all samples
  } else if (data.test->samples) {
    data.bytes = BytesKept(spec, *data.test, *data.test->samples);
  } else if (BytesKept(spec, *data.test, 1) > 0) {
    data.uncounted = kUnknownTestSamples;
  }
  return data;
}

}  // namespace lockstep::train
