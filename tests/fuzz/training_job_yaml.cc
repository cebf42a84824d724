// YAML: what is read is written and read back as the same, and read as a TrainingJob without harm.
#include "api/v1/training_job.h"
#include "api/v1/yaml.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

namespace {

// YAML reads no longer ones as `key: value` (1.2, 7.4.3), and so we write none.
bool HasKeyBeyondYaml(const lockstep::api::Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && key.size() > 200) return true;
    if (value.is_structured() && HasKeyBeyondYaml(value)) return true;
  }
  return false;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto documents = lockstep::api::ParseYaml(lockstep::fuzz::Text(data, size), "fuzz");
  if (!documents.ok()) return 0;
  for (const lockstep::api::Json& document : *documents) {
    (void)lockstep::api::TrainingJobFromJson(document);
    if (!document.is_structured() || document.empty() || HasKeyBeyondYaml(document)) continue;
    const std::string text = lockstep::api::ToYaml(nlohmann::ordered_json::parse(document.dump()));
    const auto again = lockstep::api::ParseYaml(text, "written");
    Require(again.ok() && again->size() == 1, "what was written can be read");
  }
  return 0;
}
