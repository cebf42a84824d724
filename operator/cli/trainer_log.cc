#include "operator/cli/trainer_log.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

namespace lockstep::cli {
namespace {

using Json = nlohmann::json;

// Last of their kind, by step.
struct Results {
  Json epoch, evaluation, checkpoint;
};

void Keep(const Json& record, Json& last) {
  if (!record.contains("step") || !record["step"].is_number_integer()) return;
  if (last.is_null() || record["step"] >= last["step"]) last = record;
}

void ReadLog(const std::string& path, Results& results) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    // A cheap look first: most lines of most logs are none of these.
    if (!line.starts_with('{') || line.find("\"step\"") == std::string::npos) continue;
    const Json record = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!record.is_object() || !record.contains("message")) continue;
    const Json& message = record["message"];
    if (message == "epoch done") Keep(record, results.epoch);
    if (message == "evaluated") Keep(record, results.evaluation);
    if (message == "saved a checkpoint") Keep(record, results.checkpoint);
  }
}

std::optional<double> Number(const Json& record, const char* field) {
  if (!record.contains(field) || !record[field].is_number()) return std::nullopt;
  return record[field].get<double>();
}

}  // namespace

void AddLoggedResults(const std::vector<std::string>& log_paths,
                      std::optional<api::Progress>& progress) {
  Results results;
  for (const std::string& path : log_paths) ReadLog(path, results);
  if (results.epoch.is_null() && results.evaluation.is_null() && results.checkpoint.is_null()) {
    return;
  }
  if (!progress) progress.emplace();
  if (!results.epoch.is_null() && results.epoch["step"] >= progress->step) {
    progress->step = results.epoch["step"];
    progress->loss = Number(results.epoch, "loss");
    progress->accuracy = Number(results.epoch, "accuracy");
  }
  if (!results.evaluation.is_null()) {
    progress->step = std::max(progress->step, results.evaluation["step"].get<std::int64_t>());
    progress->test_accuracy = Number(results.evaluation, "testAccuracy");
    progress->test_loss = Number(results.evaluation, "testLoss");
  }
  if (!results.checkpoint.is_null()) {
    progress->last_checkpoint_step =
        std::max(progress->last_checkpoint_step, results.checkpoint["step"].get<std::int64_t>());
  }
}

}  // namespace lockstep::cli
