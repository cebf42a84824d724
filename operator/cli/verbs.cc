#include "operator/cli/verbs.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "base/check.h"
#include "operator/cli/completion_command.h"
#include "operator/cli/convert_command.h"
#include "operator/cli/describe_command.h"
#include "operator/cli/export_command.h"
#include "operator/cli/init_command.h"
#include "operator/cli/logs_command.h"
#include "operator/cli/plan_command.h"
#include "operator/cli/render_command.h"
#include "operator/cli/run_command.h"
#include "operator/cli/status_command.h"
#include "operator/cli/suspend_command.h"
#include "operator/cli/top_command.h"
#include "operator/cli/ui_command.h"
#include "operator/cli/validate_command.h"

namespace lockstep::cli {
namespace {

// Prints the help as CLI11 does, but not the type of an argument whose name says it: "JOB JOB".
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const bool is_named_so =
        option->get_positional() && option->get_type_name() == option->get_name();
    return is_named_so ? text.substr(1 + option->get_name().size()) : text;
  }
};

// Makes a verb of the two functions and the options struct of a <verb>_command.h. `exit_codes`: its
// own, besides those of each verb.
template <typename Options>
Verb AddVerb(CLI::App& app, CLI::App* (*add)(CLI::App&, Options&), ExitCode (*run)(const Options&),
             std::vector<ExitCode> exit_codes) {
  const auto options = std::make_shared<Options>();
  Verb verb{add(app, *options), [options, run] { return run(*options); }, std::move(exit_codes)};
  for (const ExitCode& code : {kExitDone, kExitInternalError, kExitUsage}) {
    verb.exit_codes.push_back(code);
  }
  // CLI11 ends a footer with a newline.
  const std::string note = verb.command->get_footer();
  std::string text = ExitCodesText(verb.exit_codes);
  text.pop_back();
  verb.command->footer(note.empty() ? text : note + "\n\n" + text);
  return verb;
}

}  // namespace

std::vector<Verb> AddVerbs(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  return {
      AddVerb(app, AddInitCommand, RunInit, {}),
      AddVerb(app, AddRunCommand, RunRun,
              {kExitRunFailed, kExitReplicaFailed, kExitTimedOut, kExitInterrupted}),
      AddVerb(app, AddPlanCommand, RunPlan, {kExitTrainerFailed, kExitDoesNotFit}),
      AddVerb(app, AddRenderCommand, RunRender, {}),
      AddVerb(app, AddValidateCommand, RunValidate, {}),
      AddVerb(app, AddStatusCommand, RunStatus, {kExitNoAnswer, kExitJobFailed}),
      AddVerb(app, AddDescribeCommand, RunDescribe, {kExitNoAnswer}),
      AddVerb(app, AddTopCommand, RunTop, {kExitNoTimes}),
      AddVerb(app, AddUiCommand, RunUi, {}),
      AddVerb(app, AddLogsCommand, RunLogs, {kExitNoLog}),
      AddVerb(app, AddSuspendCommand, RunSuspend, {kExitNoAnswer}),
      AddVerb(app, AddResumeCommand, RunResume, {kExitNoAnswer}),
      AddVerb(app, AddConvertCommand, RunConvert, {}),
      AddVerb(app, AddExportCommand, RunExport, {kExitTrainerFailed}),
      AddVerb(app, AddCompletionCommand, RunCompletion, {}),
  };
}

int Run(const Verb& verb) {
  const ExitCode code = verb.run();
  LOCKSTEP_CHECK(IsOneOf(code, verb.exit_codes),
                 "{}: ended with {} ({}), which it does not declare", verb.command->get_name(),
                 code.code, code.meaning);
  return code.code;
}

}  // namespace lockstep::cli
