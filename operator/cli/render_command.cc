#include "operator/cli/render_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "api/v1/defaults.h"
#include "api/v1/yaml.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"
#include "operator/controller/children/render.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Orders the top level as Kubernetes does, without the status, and leaves everything below as it
// is.
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

}  // namespace

CLI::App* AddRenderCommand(CLI::App& app, RenderOptions& options) {
  CLI::App* command = app.add_subcommand(
      "render", "Print the Service, PodGroup and pods that the operator would create");
  AddJobFileOptions(*command, options.job);
  return command;
}

ExitCode RunRender(const RenderOptions& options) {
  const absl::StatusOr<JobFile> loaded = LoadJobFile(options.job);
  if (!loaded.ok()) return Fail(kExitUsage, loaded.status());
  bool first = true;
  const auto print = [&first](const kube::Object& object) {
    fmt::print("{}{}", first ? "" : "---\n", api::ToYaml(InReadingOrder(object)));
    first = false;
  };
  for (const kube::Object& object : loaded->objects) print(object);
  controller::RenderObjects(api::WithDefaults(loaded->job), controller::DnsAddresses(), {}, print);
  return kExitDone;
}

}  // namespace lockstep::cli
