#include "trainer/checkpoint/evaluation_record.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "api/v1/test_metrics.h"
#include "base/log.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

std::string RecordPath(const std::string& directory) {
  return directory + "/evaluation.json";
}

std::int64_t UnixTime(Time time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// JSON has no NaN: the library writes null for it.
double NumberOrNan(const nlohmann::json& json, const char* key) {
  const nlohmann::json& value = json.at(key);
  return value.is_null() ? std::nan("") : value.get<double>();
}

}  // namespace

absl::Status WriteEvaluationRecord(FileSystem& files, const std::string& directory,
                                   const EvaluationRecord& record) {
  const auto present = ReadEvaluationRecord(files, directory, record.job_uid);
  if (present.ok() && present->has_value() && (*present)->test_set == record.test_set &&
      (*present)->loss_function == record.loss_function && (*present)->step > record.step) {
    return absl::OkStatus();
  }
  nlohmann::ordered_json json = {{"jobUid", record.job_uid},
                                 {"testSet", record.test_set},
                                 {"lossFunction", record.loss_function},
                                 {"step", record.step},
                                 {"savedTime", UnixTime(record.saved)},
                                 {"testLoss", record.loss},
                                 {"testMetric", record.metric},
                                 {"skipped", record.skipped}};
  if (!record.metrics.empty()) {
    json["testMetrics"] = api::TestMetricsToJson(record.metrics);
    json["topK"] = record.top_k;
  }
  const std::string text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const std::string path = RecordPath(directory), draft = path + ".tmp";
  LOCKSTEP_RETURN_IF_ERROR(files.WriteFile(draft, {std::as_bytes(std::span(text))}));
  LOCKSTEP_RETURN_IF_ERROR(files.Rename(draft, path));
  return files.SyncDirectory(directory);
}

absl::StatusOr<std::optional<EvaluationRecord>> ReadEvaluationRecord(FileSystem& files,
                                                                     const std::string& directory,
                                                                     const std::string& job_uid) {
  const std::string path = RecordPath(directory);
  const auto damaged = [&path](const std::string& damage) {
    LogWarning("it is not known what has been evaluated", {{"file", path}, {"damage", damage}});
    return std::optional<EvaluationRecord>();
  };
  const absl::StatusOr<std::string> text = files.ReadFile(path, kMostJsonBytes);
  if (absl::IsNotFound(text.status())) return std::optional<EvaluationRecord>();
  if (absl::IsDataLoss(text.status())) return damaged(std::string(text.status().message()));
  if (!text.ok()) return text.status();
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  EvaluationRecord record;
  try {
    json.at("jobUid").get_to(record.job_uid);
    record.test_set = json.value("testSet", "");
    record.loss_function = json.value("lossFunction", "");
    json.at("step").get_to(record.step);
    record.saved = Time(std::chrono::seconds(json.value("savedTime", std::int64_t{0})));
    record.loss = NumberOrNan(json, "testLoss");
    record.metric = NumberOrNan(json, "testMetric");
    json.at("skipped").get_to(record.skipped);
    record.metrics = api::TestMetricsFromJson(json.value("testMetrics", nlohmann::json()));
    record.top_k = json.value("topK", record.top_k);
  } catch (const nlohmann::json::exception& error) {
    return damaged(error.what());
  }
  if (record.job_uid != job_uid) return std::optional<EvaluationRecord>();
  return std::optional<EvaluationRecord>(record);
}

}  // namespace lockstep::train
