// Command-line options that several verbs have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/cli/cluster/cluster_options.h"
#include "operator/cli/files/job_file.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is named so
class App;
class Option;
}  // namespace CLI

namespace lockstep::cli {

// What a value is, for type_name(): the help prints it, and completion offers what the cluster or
// the folder has of it. Choices such as "text|json" are offered as they are; any other type is
// completed to nothing.
inline constexpr char kFileType[] = "FILE", kFolderType[] = "FOLDER";
inline constexpr char kJobType[] = "JOB", kNamespaceType[] = "NAMESPACE",
                      kContextType[] = "CONTEXT";

// Adds JOB, which may have kubectl's form tj/NAME. Parsing fills `job`, which must outlive the
// command, with the name alone.
CLI::Option* AddJobArgument(CLI::App& command, std::string& job,
                            const std::string& description = "The job's name");

// Adds FILE and --set to `command`. Parsing fills `options`, which must outlive it.
void AddJobFileOptions(CLI::App& command, JobFileOptions& options);

// Adds --volume NAME=PATH, which may be repeated. Parsing fills `volumes`, which must outlive the
// command.
void AddVolumeOption(CLI::App& command, std::vector<std::string>& volumes);
// Returns the absolute path of each NAME. InvalidArgument names a value that has another form, or
// a PATH that does not exist.
absl::StatusOr<std::map<std::string, std::string>> ParseVolumes(
    const std::vector<std::string>& volumes);

// Adds --output with these choices, the first of which is the default; `description` says what the
// others print. Parsing fills `output`, which must outlive the command.
void AddOutputOption(CLI::App& command, std::string& output,
                     const std::vector<std::string>& choices, const std::string& description);

// Adds --kubeconfig, --context and --namespace to `command`. Parsing fills `options`, which must
// outlive it.
void AddClusterOptions(CLI::App& command, ClusterOptions& options);

}  // namespace lockstep::cli
