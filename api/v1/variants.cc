#include "api/v1/variants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "api/v1/status_fields.h"
#include "api/v1/strategy_traits.h"
#include "api/v1/training_fields.h"
#include "api/v1/validate.h"
#include "api/v1/validate_replicas.h"
#include "base/status.h"

namespace lockstep::api {
namespace {

constexpr std::size_t kLongestName = 63;
constexpr char kResults[] = "variants", kTestMetrics[] = "testMetrics";

std::string PathOf(int index) {
  return fmt::format("spec.training.variants[{}]", index);
}

// Returns `training` with the variant's changes, with faults appended to `errors`. Requires: there
// is such a variant.
TrainingSpec Merged(const TrainingSpec& training, int index, std::vector<FieldError>& errors) {
  Json changes = (*training.variants)[static_cast<std::size_t>(index)];
  changes.erase("name");
  if (changes.erase("variants") > 0) {
    errors.push_back({PathOf(index) + ".variants", "found in a variant, expected none"});
  }
  TrainingSpec base = training;
  base.variants = Json::array();
  Json merged = TrainingSpecToJson(base);
  merged.merge_patch(changes);
  TrainingSpec own;
  FieldReader reader(merged, PathOf(index), UnknownFields::kRefuse, &errors);
  Fields(reader, own);
  reader.Finish();
  return own;
}

// Each process reads all samples, so nothing is divided.
void ValidateAutoShard(AutoShard found, const std::string& path, std::vector<FieldError>& errors) {
  if (found == AutoShard::kAuto || found == AutoShard::kOff) return;
  errors.push_back({path + ".dataset.autoShard",
                    fmt::format("found {} with strategy Independent, whose processes do not divide "
                                "the samples; expected Auto or Off",
                                NameOf(found))});
}

void ValidateVariant(TrainingSpec training, int index, std::vector<FieldError>& errors) {
  // The layers are validated with `training`. They may be long, and there may be many variants, so
  // one layer stands in for them.
  if (!training.model.layers.empty()) {
    training.model.layers = Json::array({{{"type", "Dense"}}});
  }
  const std::size_t before = errors.size();
  const TrainingSpec own = Merged(training, index, errors);
  if (errors.size() > before) return;
  if (own.dataset.auto_shard != training.dataset.auto_shard) {
    ValidateAutoShard(own.dataset.auto_shard, PathOf(index), errors);
  }
  for (FieldError& error : ValidateTraining(own, PathOf(index))) {
    errors.push_back(std::move(error));
  }
}

std::string Below(const std::string& folder, const std::string& name) {
  if (folder.empty()) return folder;
  return folder.ends_with('/') ? folder + name : fmt::format("{}/{}", folder, name);
}

// Returns where `file` is if it is moved into the folder `name` beside it.
std::string InFolder(const std::string& name, const std::string& file) {
  if (file.empty()) return file;
  const std::filesystem::path path(file);
  return path.parent_path() / name / path.filename();
}

void ValidateCounts(const TrainingJob& job, std::vector<FieldError>& errors) {
  const int per_pod = job.spec.strategy->processes_per_pod.value_or(1);
  const std::int64_t processes = TrainingProcesses(job.spec);
  const auto variants = static_cast<std::int64_t>(job.spec.training->variants->size());
  if (per_pod > kMostVariantsPerPod) {
    errors.push_back({"spec.strategy.processesPerPod",
                      fmt::format("found {}, expected at most {} with Independent", per_pod,
                                  kMostVariantsPerPod)});
  }
  if (processes > kMostVariants) {
    errors.push_back({"spec.replicaSpecs.Worker.replicas",
                      fmt::format("found {} processes in all, expected at most {} with Independent",
                                  processes, kMostVariants)});
  }
  if (variants > 0 && variants != processes) {
    errors.push_back({"spec.training.variants",
                      fmt::format("found {} variants for {} processes, expected one for each: "
                                  "replicas x processesPerPod",
                                  variants, processes)});
  }
}

void ValidateNames(const TrainingSpec& training, std::vector<FieldError>& errors) {
  std::set<std::string> names;
  for (int index = 0; index < static_cast<int>(training.variants->size()); ++index) {
    const std::string name = VariantName(training, index);
    if (!IsVariantName(name)) {
      errors.push_back({PathOf(index) + ".name",
                        fmt::format("found \"{}\", expected at most {} lower-case letters, digits, "
                                    "'-' and '.', a letter or digit first",
                                    name.substr(0, kLongestName), kLongestName)});
    } else if (!names.insert(name).second) {
      errors.push_back({PathOf(index) + ".name",
                        fmt::format("found \"{}\" a second time, expected names to differ", name)});
    }
  }
}

// With the 17 digits that a double may need, the results of a full pod would not fit its message.
// The sums that they come from have seven.
void Round(double& value) {
  if (std::isfinite(value)) value = Json::parse(fmt::format("{:.7g}", value)).get<double>();
}

VariantResult Rounded(VariantResult result) {
  for (std::optional<double>* value :
       {&result.loss, &result.accuracy, &result.test_loss, &result.test_accuracy,
        &result.mean_absolute_error, &result.test_mean_absolute_error}) {
    if (*value) Round(**value);
  }
  for (auto& [metric, value] : result.test_metrics) Round(value);
  return result;
}

// A kubelet has cut off the end of `message`. Returns it up to its last whole entry, with the list
// and the object closed.
std::string WithoutCutEntry(const std::string& message) {
  const std::size_t end = message.rfind('}');
  return end == std::string::npos ? "" : message.substr(0, end + 1) + "]}";
}

}  // namespace

bool IsVariantName(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' &&
         name.front() != '-' && std::ranges::all_of(name, is_allowed);
}

std::string VariantName(const TrainingSpec& training, int index) {
  const Json& variants = *training.variants;
  if (index >= 0 && static_cast<std::size_t>(index) < variants.size()) {
    const auto name = variants[static_cast<std::size_t>(index)].find("name");
    if (name != variants[static_cast<std::size_t>(index)].end()) {
      return name->is_string() ? name->get<std::string>() : name->dump();
    }
  }
  return fmt::format("variant-{}", index);
}

absl::StatusOr<TrainingSpec> TrainingOfVariant(const TrainingSpec& training, int index) {
  TrainingSpec own = training;
  if (training.variants->empty()) {
    own.seed += index;
  } else {
    const std::size_t variants = training.variants->size();
    if (index < 0 || static_cast<std::size_t>(index) >= variants) {
      return absl::InvalidArgumentError(fmt::format(
          "training.variants: found {} variants, expected one for process {}", variants, index));
    }
    std::vector<FieldError> errors;
    own = Merged(training, index, errors);
    if (!errors.empty()) return ToStatus(errors);
  }
  const std::string name = VariantName(training, index);
  own.checkpoint.directory = Below(own.checkpoint.directory, name);
  own.summaries.directory = Below(own.summaries.directory, name);
  own.checkpoint.export_to = InFolder(name, own.checkpoint.export_to);
  return own;
}

void ValidateVariants(const TrainingJob& job, std::vector<FieldError>& errors) {
  if (!job.spec.training) return;
  const TrainingSpec& training = *job.spec.training;
  if (!TraitsOf(job.spec).trains_alone) {
    if (training.variants->empty()) return;
    errors.push_back(
        {"spec.training.variants", "found without strategy Independent, expected only with it"});
    return;
  }
  ValidateCounts(job, errors);
  ValidateNames(training, errors);
  ValidateAutoShard(training.dataset.auto_shard, "spec.training", errors);
  for (int index = 0; index < static_cast<int>(training.variants->size()); ++index) {
    ValidateVariant(training, index, errors);
  }
}

std::string ResultsToMessage(const std::vector<VariantResult>& results) {
  Json list = Json::array(), metrics = Json::array();
  for (const VariantResult& result : results) {
    Json json = FieldWriter::WriteStruct(Rounded(result));
    metrics.push_back(json.value(kTestMetrics, Json::object()));
    json.erase(kTestMetrics);
    list.push_back(std::move(json));
  }
  const bool has_metrics = std::ranges::any_of(
      results, [](const VariantResult& result) { return !result.test_metrics.empty(); });
  if (!has_metrics) metrics.clear();
  // The metrics come last, because a kubelet cuts off the end in a pod of many containers.
  const auto message = [&] {
    if (metrics.empty()) return fmt::format("{{\"{}\":{}}}", kResults, list.dump());
    return fmt::format("{{\"{}\":{},\"{}\":{}}}", kResults, list.dump(), kTestMetrics,
                       metrics.dump());
  };
  while (message().size() > kTerminationMessageBytes && !metrics.empty()) {
    metrics.erase(metrics.size() - 1);
  }
  return message();
}

std::vector<VariantResult> ResultsFromMessage(const std::string& message) {
  if (!message.starts_with('{')) return {};  // most messages are text
  Json json = Json::parse(message, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    json = Json::parse(WithoutCutEntry(message), nullptr, /*allow_exceptions=*/false);
  }
  if (!json.is_object() || !json.contains(kResults)) return {};
  std::vector<FieldError> errors;
  std::vector<VariantResult> results;
  FieldReader reader(json, "results", UnknownFields::kIgnore, &errors);
  reader.Field(kResults, results);
  if (const auto metrics = json.find(kTestMetrics); metrics != json.end() && metrics->is_array()) {
    const std::size_t both = std::min(metrics->size(), results.size());
    for (std::size_t i = 0; i < both; ++i) {
      const Json result = {{kTestMetrics, (*metrics)[i]}};
      FieldReader entry(result, "results", UnknownFields::kIgnore, &errors);
      entry.Field(kTestMetrics, results[i].test_metrics);
    }
  }
  const bool is_usable = errors.empty() && results.size() <= kMostVariantsPerPod &&
                         std::ranges::all_of(results, [](const VariantResult& result) {
                           return result.name.size() <= kLongestName;
                         });
  return is_usable ? results : std::vector<VariantResult>();
}

}  // namespace lockstep::api
