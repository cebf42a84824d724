#include "operator/cli/verbs.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/json_text.h"
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

std::string ExitCodesJson(const std::vector<Verb>& verbs) {
  using Json = nlohmann::ordered_json;
  std::vector<ExitCode> codes;
  for (const Verb& verb : verbs) {
    for (const ExitCode& code : verb.exit_codes) {
      if (std::ranges::find(codes, code) == codes.end()) codes.push_back(code);
    }
  }
  std::ranges::stable_sort(codes, {},
                           [](const ExitCode& one) { return std::pair(one.code, one.last); });
  Json list = Json::array();
  for (const ExitCode& code : codes) {
    Json names = Json::array();
    for (const Verb& verb : verbs) {
      if (std::ranges::find(verb.exit_codes, code) == verb.exit_codes.end()) continue;
      names.push_back(verb.command->get_name());
    }
    list.push_back({{"code", code.code},
                    {"last", code.last},
                    {"verbs", std::move(names)},
                    {"meaning", code.meaning}});
  }
  return AsciiJson({{"exit_codes", std::move(list)}}) + '\n';
}

int Run(const Verb& verb) {
  const ExitCode code = verb.run();
  LOCKSTEP_CHECK(IsOneOf(code, verb.exit_codes),
                 "{}: ended with {} ({}), which it does not declare", verb.command->get_name(),
                 code.code, code.meaning);
  return code.code;
}

}  // namespace lockstep::cli
