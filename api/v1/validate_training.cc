// ValidateTraining: checks the `training` section.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "api/v1/section.h"
#include "api/v1/validate.h"
#include "api/v1/validate_dataset.h"

namespace lockstep::api {
namespace {

constexpr std::string_view kModelNames[] = {"mlp",        "simple-cnn", "core-cnn",
                                            "resnet-18",  "resnet-34",  "resnet-50",
                                            "resnet-101", "resnet-152", "cifar-resnet-20"};
constexpr std::string_view kOptimizerNames[] = {"Adam", "SGD",  "RMSprop", "Adagrad",
                                                "LARS", "LAMB", "Muon"};

bool IsExtent(const Json& value) {
  const auto is_count = [](const Json& number) {
    return number.is_number_integer() && number.get<std::int64_t>() >= 1;
  };
  if (!value.is_array()) return is_count(value);
  return value.size() == 2 && is_count(value[0]) && is_count(value[1]);
}

// The schema cannot express the type of these fields, so they may hold anything.
void ValidateExtents(const Json& layers, Section& section) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const char* name : {"kernelSize", "poolSize", "strides"}) {
      const auto found = layers[i].find(name);
      if (found == layers[i].end() || found->is_null() || IsExtent(*found)) continue;
      section.Fault(fmt::format("model.layers[{}].{}", i, name),
                    "expected an integer of at least 1, or a list of two, height and width");
    }
  }
}

void ValidateModel(const ModelSpec& model, Section& section) {
  const Json& layers = *model.layers;
  ValidateExtents(layers, section);
  section.ExactlyOne("model", "name", !model.name.empty(), "layers", !layers.empty());
  if (!model.name.empty()) section.OneOf("model.name", model.name, kModelNames);
  if (model.zero_gamma && model.name.find("resnet") == std::string::npos) {
    section.Fault("model.zeroGamma",
                  "found true, expected it only with a model.name of a ResNet; layers have "
                  "gammaInitializer");
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto type = layers[i].find("type");
    if (type != layers[i].end() && type->is_string()) continue;
    section.Fault(fmt::format("model.layers[{}].type", i),
                  "found none, expected a layer type, such as \"Dense\"");
  }
}

// Rejects an empty text, which every name contains.
void ValidateNameParts(const std::string& field, const std::vector<std::string>& parts,
                       Section& section) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) continue;
    section.Fault(fmt::format("{}[{}]", field, i),
                  "found an empty text, which every name contains; expected a part of a name");
  }
}

void ValidateInitialWeights(const InitialWeightsSpec& weights, Section& section) {
  section.Absolute("initialWeights.path", weights.path);
  if (!weights.exclude.empty() && weights.path.empty()) {
    section.Fault("initialWeights.exclude", "found without path, expected the path of a file");
  }
  ValidateNameParts("initialWeights.exclude", weights.exclude, section);
}

// Rejects settings that the chosen optimizer would ignore.
void ValidateOptimizer(const OptimizerSpec& optimizer, Section& section) {
  section.OneOf("optimizer.name", optimizer.name, kOptimizerNames);
  const OptimizerSpec defaults;
  using Names = std::vector<std::string_view>;
  const auto only_with = [&](const Names& names, std::string_view field, bool is_set) {
    if (!is_set || std::ranges::find(names, optimizer.name) != names.end()) return;
    section.Fault(fmt::format("optimizer.{}", field),
                  fmt::format("found with {}, expected only with {}", optimizer.name,
                              fmt::join(names, " or ")));
  };
  only_with({"SGD", "RMSprop", "LARS"}, "momentum", optimizer.momentum != 0);
  only_with({"SGD", "LARS"}, "nesterov", optimizer.nesterov);
  only_with({"Adam", "LAMB", "Muon"}, "beta1", optimizer.beta1 != defaults.beta1);
  only_with({"Adam", "LAMB", "Muon"}, "beta2", optimizer.beta2 != defaults.beta2);
  only_with({"RMSprop"}, "rho", optimizer.rho != defaults.rho);
  only_with({"Adam", "RMSprop", "Adagrad", "LAMB", "Muon"}, "epsilon",
            optimizer.epsilon != defaults.epsilon);
  only_with({"Adagrad"}, "initialAccumulatorValue",
            optimizer.initial_accumulator_value != defaults.initial_accumulator_value);
  only_with({"LARS"}, "trustCoefficient",
            optimizer.trust_coefficient != defaults.trust_coefficient);
  only_with({"Muon"}, "muonMomentum", optimizer.muon_momentum != defaults.muon_momentum);
  only_with({"Muon"}, "muonNesterov", optimizer.muon_nesterov != defaults.muon_nesterov);
  only_with({"Muon"}, "adamLrRatio", optimizer.adam_lr_ratio != defaults.adam_lr_ratio);
  only_with({"Muon"}, "excludeLayers", !optimizer.exclude_layers.empty());
  ValidateNameParts("optimizer.excludeLayers", optimizer.exclude_layers, section);
  if (!optimizer.weight_decay_exclude.empty() && optimizer.weight_decay == 0 &&
      !MeasuresTensors(optimizer)) {
    section.Fault("optimizer.weightDecayExclude",
                  "found without weightDecay, expected weightDecay above 0, LARS or LAMB");
  }
  ValidateNameParts("optimizer.weightDecayExclude", optimizer.weight_decay_exclude, section);
  const bool has_momentum = optimizer.name == "SGD" || optimizer.name == "LARS";
  if (has_momentum && optimizer.nesterov && optimizer.momentum == 0) {
    section.Fault("optimizer.nesterov", "found without momentum, expected momentum above 0");
  }
}

// Requires labels that fit the loss, and rejects settings that it would ignore.
void ValidateLoss(const TrainingSpec& training, Section& section) {
  const LossSpec& loss = training.loss;
  const auto only_with = [&](std::string_view field, bool is_set, bool fits, const char* with) {
    if (!is_set || fits) return;
    section.Fault(
        field, fmt::format("found with loss {}, expected only with {}", NameOf(loss.type), with));
  };
  const bool is_crossentropy = IsCrossentropy(loss.type);
  only_with("loss.fromLogits", loss.from_logits.has_value(), is_crossentropy, "a crossentropy");
  only_with("labelSmoothing", training.label_smoothing != 0, is_crossentropy, "a crossentropy");
  only_with("loss.delta", loss.delta != LossSpec{}.delta, loss.type == LossType::kHuber, "Huber");
  const DatasetFormat format = training.dataset.format;
  const FormatTraits traits = TraitsOf(training.dataset);
  const auto needs = [&](bool fits, const char* labels, const std::string& formats) {
    if (fits) return;
    section.Fault("loss.type", fmt::format("found {} with format {}, whose labels are classes, "
                                           "expected {}, which have {}",
                                           NameOf(loss.type), NameOf(format), formats, labels));
  };
  if (!is_crossentropy) {
    needs(MayHaveNumbers(traits), "labels of any numbers", NamesOfFormats(MayHaveNumbers));
  }
  if (loss.type == LossType::kCategoricalCrossentropy) {
    const auto has_many = [](const FormatTraits& one) {
      return one.labels == FormatLabels::kNumbers;
    };
    needs(has_many(traits), "a number for each class",
          "arrays in format " + NamesOfFormats(has_many));
  }
}

void ValidateSchedule(const TrainingSpec& training, Section& section) {
  const LearningRateScheduleSpec& schedule = training.learning_rate_schedule;
  const LearningRateScheduleSpec defaults;
  const auto only_with = [&](ScheduleType a, ScheduleType b, std::string_view field, bool is_set) {
    if (!is_set || schedule.type == a || schedule.type == b) return;
    section.Fault(fmt::format("learningRateSchedule.{}", field),
                  fmt::format("found with type {}, expected only with {}", NameOf(schedule.type),
                              a == b ? NameOf(a) : fmt::format("{} or {}", NameOf(a), NameOf(b))));
  };
  using enum ScheduleType;
  only_with(kCosine, kPolynomial, "finalFraction",
            schedule.final_fraction != defaults.final_fraction);
  only_with(kStep, kExponential, "factor", schedule.factor != defaults.factor);
  only_with(kStep, kExponential, "everySteps", schedule.every_steps.has_value());
  only_with(kPolynomial, kPolynomial, "power", schedule.power != defaults.power);
  if ((schedule.type == kStep || schedule.type == kExponential) && !schedule.every_steps) {
    section.Fault(
        "learningRateSchedule.everySteps",
        fmt::format("found none, expected a number of steps with type {}", NameOf(schedule.type)));
  }
  if (schedule.type == kOneCycle && schedule.warmup_steps != 0) {
    section.Fault("learningRateSchedule.warmupSteps",
                  fmt::format("found {} with type OneCycle, expected 0: it has its own warm-up",
                              schedule.warmup_steps));
  }
  if (training.steps && schedule.warmup_steps > *training.steps) {
    section.Fault("learningRateSchedule.warmupSteps",
                  fmt::format("found {}, expected at most steps, {}", schedule.warmup_steps,
                              *training.steps));
  }
}

// Requires a number that the job's evaluations measure.
void ValidateBestMetric(const TrainingSpec& training, BestMetric found, std::string_view field,
                        Section& section) {
  std::vector<std::string_view> names = {NameOf(MetricOf(training.loss.type)),
                                         NameOf(BestMetric::kLoss)};
  for (const TestMetric metric : training.evaluation.metrics) names.push_back(NameOf(metric));
  if (std::ranges::find(names, NameOf(found)) != names.end()) return;
  section.Fault(
      field,
      fmt::format(
          "found {} with loss {}, expected {}; evaluation.metrics says what else is measured",
          NameOf(found), NameOf(training.loss.type), fmt::join(names, " or ")));
}

// Requires an evaluation, whose numbers it compares, and that this has the metric.
void ValidateEarlyStopping(const TrainingSpec& training, Section& section) {
  if (!training.early_stopping) return;
  if (!training.evaluation.enabled) {
    section.Fault("earlyStopping",
                  "found with evaluation.enabled false, expected true: it compares evaluations");
  }
  if (training.early_stopping->restore_best && training.ema) {
    section.Fault(
        "earlyStopping.restoreBest",
        "found true with ema, expected one of both: the average is what the run ends with");
  }
  ValidateBestMetric(training, training.early_stopping->metric, "earlyStopping.metric", section);
}

// The trainer compares topK with the number of classes, which only the data say.
void ValidateTestMetrics(const TrainingSpec& training, Section& section) {
  const std::vector<TestMetric>& metrics = training.evaluation.metrics;
  if (!metrics.empty() && !training.evaluation.enabled) {
    section.Fault("evaluation.metrics",
                  "found with enabled false, expected none: only an evaluation measures them");
  }
  const std::vector<TestMetric> meant = TestMetricsOf(training.loss.type);
  std::vector<std::string_view> names;
  for (const TestMetric metric : meant) names.push_back(NameOf(metric));
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    if (std::ranges::find(meant, metrics[i]) != meant.end()) continue;
    section.Fault(fmt::format("evaluation.metrics[{}]", i),
                  fmt::format("found {} with loss {}, expected {}", NameOf(metrics[i]),
                              NameOf(training.loss.type), fmt::join(names, " or ")));
  }
}

void ValidateExport(const std::string& file, Section& section) {
  section.Absolute("checkpoint.exportTo", file);
  if (!file.starts_with('/')) return;
  const std::string ending = std::filesystem::path(file).extension();
  if (ending == ".onnx" || ending == ".safetensors") return;
  section.Fault(
      "checkpoint.exportTo",
      fmt::format("found \"{}\", expected a file that ends in .onnx or .safetensors", file));
}

}  // namespace

std::vector<FieldError> ValidateTraining(const TrainingSpec& training, const std::string& path) {
  std::vector<FieldError> errors;
  Section section(path, &errors);
  ValidateModel(training.model, section);
  ValidateDataset(training.dataset, section);
  section.ExactlyOne("batchSize", "global", training.batch_size.global.has_value(), "perReplica",
                     training.batch_size.per_replica.has_value());
  section.ExactlyOne("", "epochs", training.epochs.has_value(), "steps",
                     training.steps.has_value());
  ValidateInitialWeights(training.initial_weights, section);
  ValidateLoss(training, section);
  ValidateOptimizer(training.optimizer, section);
  ValidateSchedule(training, section);
  ValidateTestMetrics(training, section);
  ValidateEarlyStopping(training, section);
  section.Absolute("checkpoint.directory", training.checkpoint.directory);
  if (const auto& best = training.checkpoint.keep_best) {
    ValidateBestMetric(training, *best, "checkpoint.keepBest", section);
  }
  ValidateExport(training.checkpoint.export_to, section);
  section.Absolute("summaries.directory", training.summaries.directory);
  return errors;
}

}  // namespace lockstep::api
