#include "operator/cli/shared_options.h"

#include <CLI/CLI.hpp>

namespace lockstep::cli {

void AddJobFileOptions(CLI::App& command, JobFileOptions& options) {
  command.add_option("FILE", options.file, "YAML with one TrainingJob; - reads standard input")
      ->required();
  command
      .add_option("--set", options.sets,
                  "Change a field before the job is read, for example spec.training.epochs=3; list "
                  "entries are written as containers[0]; may be repeated")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false)
      ->take_all();
}

void AddClusterOptions(CLI::App& command, ClusterOptions& options) {
  command.add_option("--kubeconfig", options.kubeconfig,
                     "The kubeconfig file [$KUBECONFIG, else ~/.kube/config]");
  command.add_option("--context", options.context,
                     "The context of the kubeconfig [the current one]");
  command.add_option("-n,--namespace", options.namespace_name,
                     "The namespace of the jobs [the context's]");
}

}  // namespace lockstep::cli
