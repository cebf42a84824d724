#include "operator/cli/shared_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "operator/local/volumes.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

namespace {

// Leaves the name of TYPE/NAME, as kubectl prints and takes it. Returns what is wrong with it.
std::string KeepName(std::string& job) {
  const std::size_t slash = job.find('/');
  if (slash == std::string::npos) return "";
  const std::string type = job.substr(0, std::min(slash, job.find('.')));
  if ((type != "tj" && type != "trainingjob" && type != "trainingjobs") ||
      slash + 1 == job.size()) {
    return fmt::format("found \"{}\", expected a job's name, or tj/ and its name", job);
  }
  job.erase(0, slash + 1);
  return "";
}

}  // namespace

CLI::Option* AddJobArgument(CLI::App& command, std::string& job, const std::string& description) {
  return command.add_option("JOB", job, description)
      ->transform(CLI::Validator(KeepName, ""))
      ->type_name(kJobType);
}

void AddJobFileOptions(CLI::App& command, JobFileOptions& options) {
  command.add_option("FILE", options.file, "YAML with one TrainingJob; - reads standard input")
      ->type_name(kFileType)
      ->required();
  command
      .add_option("--set", options.sets,
                  "Change a field before the job is read, for example spec.training.epochs=3; list "
                  "entries are written as containers[0]; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

void AddVolumeOption(CLI::App& command, std::vector<std::string>& volumes) {
  command
      .add_option("--volume", volumes,
                  "Use the folder PATH as the volume or claim NAME; may be repeated")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false)
      ->take_all();
}

absl::StatusOr<std::map<std::string, std::string>> ParseVolumes(
    const std::vector<std::string>& volumes) {
  std::map<std::string, std::string> folders;
  for (const std::string& volume : volumes) {
    const std::size_t equals = volume.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == volume.size()) {
      return absl::InvalidArgumentError(
          fmt::format("--volume {}: expected NAME=PATH, like data=/srv/mnist", volume));
    }
    const fs::path path = volume.substr(equals + 1);
    if (const std::string why = local::WhyAbsent(path.string()); !why.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--volume {}: {} {}", volume, path.string(), why));
    }
    folders[volume.substr(0, equals)] = fs::absolute(path).lexically_normal().string();
  }
  return folders;
}

void AddOutputOption(CLI::App& command, std::string& output,
                     const std::vector<std::string>& choices, const std::string& description) {
  output = choices.front();
  command.add_option("-o,--output", output, description)
      ->check(CLI::IsMember(choices))
      ->type_name(fmt::format("{}", fmt::join(choices, "|")));
}

void AddClusterOptions(CLI::App& command, ClusterOptions& options) {
  command
      .add_option("--kubeconfig", options.kubeconfig,
                  "The kubeconfig file [$KUBECONFIG, else ~/.kube/config]")
      ->type_name(kFileType);
  command
      .add_option("--context", options.context, "The context of the kubeconfig [the current one]")
      ->type_name(kContextType);
  command
      .add_option("-n,--namespace", options.namespace_name,
                  "The namespace of the jobs [the context's]")
      ->type_name(kNamespaceType);
}

}  // namespace lockstep::cli
