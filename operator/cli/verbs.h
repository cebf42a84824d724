// The verbs of `lockstep`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "operator/cli/exit_codes.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is named so
class App;
}

namespace lockstep::cli {

struct Verb {
  CLI::App* command = nullptr;
  std::function<ExitCode()> run;     // to be called once `command` was parsed
  std::vector<ExitCode> exit_codes;  // what `run` can return
};

// Adds all verbs to `app`, in the order of --help, each with its exit codes in its help. The app
// must outlive them.
std::vector<Verb> AddVerbs(CLI::App& app);

// Returns the exit codes of all verbs as one JSON object, in the order of the codes. Ends with a
// line feed.
std::string ExitCodesJson(const std::vector<Verb>& verbs);

// Runs the verb and returns its exit code. Fails a check if the verb does not declare the code.
int Run(const Verb& verb);

}  // namespace lockstep::cli
