// The `lockstep` program: the table of its verbs, and how one of them is called.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/descriptor_limit.h"
#include "operator/cli/completion_command.h"
#include "operator/cli/convert_command.h"
#include "operator/cli/describe_command.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/export_command.h"
#include "operator/cli/fail.h"
#include "operator/cli/init_command.h"
#include "operator/cli/logs_command.h"
#include "operator/cli/plan_command.h"
#include "operator/cli/render_command.h"
#include "operator/cli/run_command.h"
#include "operator/cli/status_command.h"
#include "operator/cli/top_command.h"
#include "operator/cli/validate_command.h"

namespace lockstep::cli {
namespace {

struct Verb {
  CLI::App* command;
  std::function<int()> run;  // returns the exit code
};

// Makes a verb of the two functions and the options struct of a <verb>_command.h.
template <typename Options>
Verb AddVerb(CLI::App& app, CLI::App* (*add)(CLI::App&, Options&), int (*run)(const Options&)) {
  const auto options = std::make_shared<Options>();
  return {add(app, *options), [options, run] { return run(*options); }};
}

// In the order of --help.
std::vector<Verb> AddVerbs(CLI::App& app) {
  return {
      AddVerb(app, AddInitCommand, RunInit),
      AddVerb(app, AddRunCommand, RunRun),
      AddVerb(app, AddPlanCommand, RunPlan),
      AddVerb(app, AddRenderCommand, RunRender),
      AddVerb(app, AddValidateCommand, RunValidate),
      AddVerb(app, AddStatusCommand, RunStatus),
      AddVerb(app, AddDescribeCommand, RunDescribe),
      AddVerb(app, AddTopCommand, RunTop),
      AddVerb(app, AddLogsCommand, RunLogs),
      AddVerb(app, AddConvertCommand, RunConvert),
      AddVerb(app, AddExportCommand, RunExport),
      AddVerb(app, AddCompletionCommand, RunCompletion),
  };
}

int Main(int argc, char** argv) {
  CLI::App app("Distributed training jobs: the same YAML on a cluster and on this machine.",
               "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  const std::vector<Verb> verbs = AddVerbs(app);
  if (const auto answered = AnswerCompletion(app, {argv + 1, argv + argc})) return *answered;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone : kExitUsage;
  }
  RaiseDescriptorLimit();  // a pod of `run` takes two descriptors, one of `logs --all` a connection
  const auto is_called = [&app](const Verb& verb) { return app.got_subcommand(verb.command); };
  return std::ranges::find_if(verbs, is_called)->run();  // parse() has required one
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  lockstep::OpenStandardStreams();
  try {
    return lockstep::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    return lockstep::cli::FailInternally(lockstep::cli::kExitError, error);
  }
}
