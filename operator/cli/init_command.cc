#include "operator/cli/init_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "api/v1/enum_names.h"
#include "api/v1/format_traits.h"
#include "base/status.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/files/job_file.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

using api::DatasetFormat;

constexpr int kMostWorkers = 1000;

// What a job of a format starts from: settings that train something sensible, to be changed.
struct Start {
  const char* model;    // below spec.training.model
  const char* dataset;  // further fields of spec.training.dataset, each with its comment
  int batch;            // of a worker
  const char* limits = R"({cpu: "1", memory: 2Gi})";
};

Start StartOf(DatasetFormat format) {
  switch (format) {
    case DatasetFormat::kIdx:
      return {"name: core-cnn", "", 64};
    case DatasetFormat::kCifar:
      return {"name: cifar-resnet-20", "      augment: {randomFlip: Horizontal, randomCrop: {}}\n",
              64};
    case DatasetFormat::kNpy:
      return {"name: cifar-resnet-20", "", 64};
    case DatasetFormat::kCsv:
      return {R"(layers:
        - {type: Dense, units: 128, activation: relu}
        - {type: Dense, units: 10} # as many as there are classes)",
              "      csv: {labelColumn: label} # the column of the classes: integers from 0\n"
              "      validationFraction: 0.2 # of the rows, which test the model\n",
              64};
    case DatasetFormat::kTfRecord:
    case DatasetFormat::kImageFolder:
      return {"name: resnet-18",
              "      imageSize: [224, 224] # that images are resized to\n"
              "      augment: {randomFlip: Horizontal}\n",
              16, R"({cpu: "4", memory: 8Gi})"};
    case DatasetFormat::kSynthetic:
      return {"name: core-cnn", "", 64};
  }
  return {};
}

// Returns the path if a shell takes it for one word; `otherwise` stands for one to be quoted.
std::string InCommand(const std::string& path, const char* otherwise) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@";
  return path.find_first_not_of(kPlain) == std::string::npos ? path : otherwise;
}

std::string HeadOf(const InitOptions& options) {
  const std::string file = options.file == "-" ? "FILE" : InCommand(options.file, "FILE");
  const std::string volume =
      options.data.empty() ? ""
                           : fmt::format(" --volume data={}", InCommand(options.data, "FOLDER"));
  return fmt::format(
      R"(# What it would do and need:  lockstep plan {file}{volume}
# On this machine:            lockstep run {file}{volume}
# On a cluster:               kubectl apply -f {file}
# There the claims that are named at the end must exist. docs/training-job.md describes every field.
apiVersion: training.lockstep.dev/v1
kind: TrainingJob
metadata:
  name: "{name}"
)",
      fmt::arg("file", file), fmt::arg("volume", volume), fmt::arg("name", options.name));
}

std::string TrainingOf(const InitOptions& options, DatasetFormat format, const Start& start) {
  const bool has_files = !options.data.empty();
  return fmt::format(
      R"(spec:
  strategy:
    type: MultiWorkerMirrored # each worker computes its share of a batch; all make the same update
  training:
    model:
      {model}
    dataset:
      format: {format}{synthetic}
{path}{dataset}    batchSize:
      global: {batch} # of all workers together
    epochs: 10
    optimizer:
      name: Adam
      learningRate: 0.001
    learningRateSchedule: {{type: Cosine}}
    checkpoint:
      directory: /checkpoints
      everySteps: 500
)",
      fmt::arg("model", options.model.empty() ? start.model : "name: " + options.model),
      fmt::arg("format", api::NameOf(format)),
      fmt::arg("synthetic", has_files ? "" : " # generated, to try the rest"),
      fmt::arg("path", has_files ? "      path: /data\n" : ""), fmt::arg("dataset", start.dataset),
      fmt::arg("batch", start.batch * options.workers));
}

std::string ReplicasOf(const InitOptions& options, const Start& start) {
  const bool has_files = !options.data.empty();
  const std::string mount =
      has_files ? "                - {name: data, mountPath: /data, readOnly: true}\n" : "";
  const std::string claim = has_files ? fmt::format(R"(            - name: data
              persistentVolumeClaim: {{claimName: {}-data, readOnly: true}}
)",
                                                    options.name)
                                      : "";
  return fmt::format(
      R"(  replicaSpecs:
    Worker:
      replicas: {workers}
      template:
        spec:
          containers:
            - name: trainer # the operator fills in image and command
              resources:
                limits: {limits} # of each worker
              volumeMounts:
{mount}                - {{name: checkpoints, mountPath: /checkpoints}}
          volumes:
{claim}            - name: checkpoints
              persistentVolumeClaim: {{claimName: {name}-checkpoints}}
)",
      fmt::arg("workers", options.workers), fmt::arg("limits", start.limits),
      fmt::arg("mount", mount), fmt::arg("claim", claim), fmt::arg("name", options.name));
}

absl::StatusOr<DatasetFormat> FormatOf(const InitOptions& options) {
  if (options.data.empty()) return DatasetFormat::kSynthetic;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto format, FormatOfFolder(options.data));
  if (format) return *format;
  std::vector<std::string_view> known;
  for (const auto& [one, name] : api::kEnumNames<DatasetFormat>) {
    const std::string_view files = api::TraitsOf(one).train_files_text;
    if (!files.empty()) known.push_back(files);
  }
  const std::string_view last = known.back();
  known.pop_back();
  return absl::InvalidArgumentError(
      fmt::format("--data {}: found no file of a known name, expected one of {}, or {}",
                  options.data, fmt::join(known, ", "), last));
}

// Returns true if `entry` is one of these files or folders: see FormatTraits::train_files.
bool IsOneOf(const fs::directory_entry& entry, const std::vector<std::string_view>& patterns) {
  const std::string name = entry.path().filename();
  const auto matches = [&entry, &name](std::string_view pattern) {
    const bool is_folder = pattern.ends_with('/');
    if (is_folder) pattern.remove_suffix(1);
    if (::fnmatch(std::string(pattern).c_str(), name.c_str(), 0) != 0) return false;
    std::error_code ignored;  // an entry that cannot be looked at is no folder
    return !is_folder || entry.is_directory(ignored);
  };
  return std::ranges::any_of(patterns, matches);
}

// Creates the file: a job that somebody has edited is not replaced. ResourceExhausted: there was no
// room for it, and no part of it is left, so that the next attempt does not find one.
absl::Status WriteNewFile(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wx");
  if (file == nullptr && errno == EEXIST) {
    return absl::AlreadyExistsError(
        fmt::format("{}: found a file of this name, expected none", path));
  }
  if (file == nullptr) {
    return absl::UnavailableError(
        fmt::format("{}: cannot be created: {}", path, std::strerror(errno)));
  }
  int error = std::fwrite(text.data(), 1, text.size(), file) == text.size() ? 0 : errno;
  if (std::fclose(file) != 0 && error == 0) error = errno;
  if (error == 0) return absl::OkStatus();
  std::error_code ignored;  // of two errors, the first says why
  fs::remove(path, ignored);
  return absl::ResourceExhaustedError(
      fmt::format("{}: cannot be written: {}", path, std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::optional<DatasetFormat>> FormatOfFolder(const std::string& folder) {
  std::error_code error;
  std::map<DatasetFormat, std::vector<std::string_view>> known;  // their training files
  for (const auto& [format, name] : api::kEnumNames<DatasetFormat>) {
    known[format] = api::TraitsOf(format).train_files;
  }
  std::set<DatasetFormat> found;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    for (const auto& [format, files] : known) {
      if (IsOneOf(*entries, files)) found.insert(format);
    }
  }
  if (error) {
    return absl::NotFoundError(
        fmt::format("--data {}: cannot list the folder: {}", folder, error.message()));
  }
  if (found.size() > 1) {
    std::vector<std::string_view> names;
    for (const DatasetFormat format : found) names.push_back(api::NameOf(format));
    return absl::InvalidArgumentError(
        fmt::format("--data {}: found files of the formats {}, expected those of one", folder,
                    fmt::join(names, " and ")));
  }
  if (found.empty()) return std::optional<DatasetFormat>();
  return std::optional(*found.begin());
}

absl::StatusOr<std::string> NewJob(const InitOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const DatasetFormat format, FormatOf(options));
  const Start start = StartOf(format);
  std::string text =
      HeadOf(options) + TrainingOf(options, format, start) + ReplicasOf(options, start);
  LOCKSTEP_RETURN_IF_ERROR(ParseJobFile(text, "the new job", {}).status());
  return text;
}

CLI::App* AddInitCommand(CLI::App& app, InitOptions& options) {
  CLI::App* command =
      app.add_subcommand("init", "Write a TrainingJob to start from, with comments");
  command->add_option("FILE", options.file, "The file to create; - is standard output [-]")
      ->type_name(kFileType);
  command
      ->add_option("--data", options.data,
                   "The folder of the data set, whose files tell the format [generated data]")
      ->type_name(kFolderType);
  command->add_option("--name", options.name, "The job's name [my-job]")->type_name("NAME");
  command
      ->add_option("--model", options.model,
                   "A model by name, such as core-cnn or resnet-50 [one that suits the data]")
      ->type_name("MODEL");
  command->add_option("--workers", options.workers, "The number of workers, up to 1000 [2]")
      ->check(CLI::Range(1, kMostWorkers));
  return command;
}

ExitCode RunInit(const InitOptions& options) {
  const absl::StatusOr<std::string> text = NewJob(options);
  if (!text.ok()) return Fail(kExitUsage, text.status());
  if (options.file == "-") {
    fmt::print("{}", *text);
    return kExitDone;
  }
  const absl::Status written = WriteNewFile(options.file, *text);
  if (absl::IsResourceExhausted(written)) return Fail(kExitInternalError, written);
  return written.ok() ? kExitDone : Fail(kExitUsage, written);
}

}  // namespace lockstep::cli
