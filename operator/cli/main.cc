// The `lockstep` program: reads the command line and calls the verb.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/descriptor_limit.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "operator/cli/completion_command.h"
#include "operator/cli/exit_codes.h"
#include "operator/cli/fail.h"
#include "operator/cli/verbs.h"

namespace lockstep::cli {
namespace {

// Says what is wrong with the first word, of which CLI11 would only say that it is no verb; empty:
// nothing.
std::string FaultOfFirstWord(const CLI::App& app, const std::vector<Verb>& verbs,
                             const std::string& word) {
  std::vector<std::string> names;
  const bool is_option = word.starts_with('-');
  if (is_option) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->check_name(word)) return "";
      names.push_back(option->get_name());
    }
  } else {
    for (const Verb& verb : verbs) names.push_back(verb.command->get_name());
    if (std::ranges::find(names, word) != names.end()) return "";
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  return fmt::format("lockstep: found the {} \"{}\", {}\n", is_option ? "option" : "verb",
                     Printable(word), SuggestName(word, known));
}

// Returns the arguments, with `help` and `help VERB`, as many programs have it, as what they are
// here: `--help` and `VERB --help`.
std::vector<std::string> ArgumentsOf(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  return arguments;
}

int Main(int argc, char** argv) {
  CLI::App app("Distributed training jobs: the same YAML on a cluster and on this machine.",
               "lockstep");
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION);
  app.require_subcommand(1);
  const std::vector<Verb> verbs = AddVerbs(app);
  app.add_flag_callback(
      "--exit-codes",
      [&verbs] {
        fmt::print("{}", ExitCodesJson(verbs));
        throw CLI::Success();
      },
      "Print the exit codes of all verbs as JSON and exit");
  std::vector<std::string> arguments = ArgumentsOf(argc, argv);
  if (AnswerCompletion(app, arguments)) return kExitDone.code;
  if (const std::string fault =
          arguments.empty() ? "" : FaultOfFirstWord(app, verbs, arguments.front());
      !fault.empty()) {
    std::fputs(fault.c_str(), stderr);
    return kExitUsage.code;
  }
  try {
    std::ranges::reverse(arguments);  // CLI11 takes the last one first
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitDone.code : kExitUsage.code;
  }
  RaiseDescriptorLimit();  // a pod of `run` takes three, one of `logs --all` a connection
  const auto is_called = [&app](const Verb& verb) { return app.got_subcommand(verb.command); };
  return Run(*std::ranges::find_if(verbs, is_called));  // parse() has required one
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  lockstep::OpenStandardStreams();
  int code = lockstep::cli::kExitInternalError.code;
  bool is_cut = false;
  try {
    code = lockstep::cli::Main(argc, argv);
  } catch (const std::system_error& error) {
    // fmt::print throws one where it cannot write.
    if (std::ferror(stdout) == 0) return lockstep::cli::FailInternally(error).code;
    is_cut = true;
  } catch (const std::exception& error) {
    return lockstep::cli::FailInternally(error).code;
  }
  return lockstep::cli::CodeWithOutput(code, is_cut);
}
