#include "operator/cli/render_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "api/v1/defaults.h"
#include "api/v1/names.h"
#include "api/v1/yaml.h"
#include "base/printable.h"
#include "operator/cli/job_file.h"
#include "operator/controller/children/render.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Orders the top level as Kubernetes does and leaves everything below as it is.
OrderedJson InReadingOrder(const kube::Object& object) {
  OrderedJson ordered = OrderedJson::object();
  for (const char* key : {"apiVersion", "kind", "metadata", "spec"}) {
    if (object.contains(key)) ordered[key] = OrderedJson::parse(object[key].dump());
  }
  for (const auto& [key, value] : object.items()) {
    if (!ordered.contains(key) && key != "status") ordered[key] = OrderedJson::parse(value.dump());
  }
  return ordered;
}

int Fail(const absl::Status& status) {
  fmt::print(stderr, "{}\n", Printable(std::string(status.message())));
  return api::kExitUsage;
}

}  // namespace

int RenderJob(const std::string& file, const std::vector<std::string>& sets) {
  const absl::StatusOr<JobFile> loaded = LoadJobFile(file, sets);
  if (!loaded.ok()) return Fail(loaded.status());
  std::vector<kube::Object> objects = loaded->objects;
  for (kube::Object& object :
       controller::RenderObjects(api::WithDefaults(loaded->job), controller::DnsAddresses())) {
    objects.push_back(std::move(object));
  }
  bool first = true;
  for (const kube::Object& object : objects) {
    fmt::print("{}{}", first ? "" : "---\n", api::ToYaml(InReadingOrder(object)));
    first = false;
  }
  return api::kExitDone;
}

int ValidateJob(const std::string& file, const std::vector<std::string>& sets) {
  const absl::StatusOr<JobFile> loaded = LoadJobFile(file, sets);
  if (!loaded.ok()) return Fail(loaded.status());
  fmt::print("{}: TrainingJob {} is valid\n", file, loaded->job.metadata.name);
  return api::kExitDone;
}

}  // namespace lockstep::cli
