#include "operator/cli/convert_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>
#include <vector>

#include "api/v1/yaml.h"
#include "base/printable.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"
#include "operator/cli/files/kubeflow_job.h"

namespace lockstep::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Prints each line of `text` to stderr, prefixed with `about`.
void PrintNotes(const std::string& about, const std::string& text) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    fmt::print(stderr, "{}\n",
               Printable(fmt::format("{}: {}", about, text.substr(start, end - start))));
    start = end + 1;
  }
}

std::string NameOf(const kube::Object& object) {
  return fmt::format("{} {}", object.at("kind").get<std::string>(),
                     kube::Name(object).empty() ? "without a name" : kube::Name(object));
}

struct Converted {
  std::vector<OrderedJson> documents;
  int jobs = 0;
  bool failed = false;
};

// What `kubectl get` prints of several objects.
bool IsList(const kube::Object& document) {
  return kube::TextMember(document, "apiVersion") == "v1" &&
         kube::TextMember(document, "kind") == "List" && document.contains("items") &&
         document.at("items").is_array();
}

void Convert(const kube::Object& document, Converted& all) {
  if (IsList(document)) {
    for (const kube::Object& item : document.at("items")) Convert(item, all);
    return;
  }
  if (!IsKubeflowJob(document)) {
    if (IsOtherKubeflowJob(document)) {
      PrintNotes(NameOf(document),
                 fmt::format("{} is not converted, only TFJob, PyTorchJob and JAXJob of "
                             "kubeflow.org/v1 are: the object is printed unchanged",
                             kube::TextMember(document, "apiVersion")));
    }
    all.documents.push_back(OrderedJson::parse(document.dump()));
    return;
  }
  ++all.jobs;
  const std::string name = NameOf(document);
  auto converted = ConvertKubeflowJob(document);
  if (!converted.ok()) {
    PrintNotes(name, std::string(converted.status().message()));
    all.failed = true;
    return;
  }
  for (const std::string& note : converted->notes) PrintNotes(name, note);
  all.documents.push_back(std::move(converted->object));
}

}  // namespace

CLI::App* AddConvertCommand(CLI::App& app, ConvertOptions& options) {
  CLI::App* command = app.add_subcommand(
      "convert", "Print Kubeflow's TFJobs, PyTorchJobs and JAXJobs as TrainingJobs");
  command
      ->add_option("FILE", options.file,
                   "YAML, also a List; - reads standard input; other objects are printed unchanged")
      ->type_name(kFileType)
      ->required();
  command->footer(
      "Unsupported fields, and jobs of Kubeflow that are of other kinds, are listed on stderr.");
  return command;
}

ExitCode RunConvert(const ConvertOptions& options) {
  const auto text = ReadInput(options.file);
  if (!text.ok()) return Fail(kExitUsage, text.status());
  const std::string source = SourceOf(options.file);
  const auto documents = api::ParseYaml(*text, source);
  if (!documents.ok()) return Fail(kExitUsage, documents.status());
  Converted all;
  for (const api::Json& document : *documents) Convert(document, all);
  if (all.jobs == 0) {
    return Fail(kExitUsage,
                absl::InvalidArgumentError(fmt::format(
                    "{}: found no TFJob, PyTorchJob or JAXJob of kubeflow.org/v1", source)));
  }
  if (all.failed) return kExitUsage;
  bool first = true;
  for (const OrderedJson& document : all.documents) {
    fmt::print("{}{}", first ? "" : "---\n", api::ToYaml(document));
    first = false;
  }
  return kExitDone;
}

}  // namespace lockstep::cli
