// `lockstep completion SHELL`, and the call with which its scripts ask for what can follow.
#pragma once

#include <string>
#include <vector>

#include "operator/cli/exit_codes.h"

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11 is named so
class App;
}

namespace lockstep::cli {

struct CompletionOptions {
  std::string shell;  // bash, zsh or fish
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddCompletionCommand(CLI::App& app, CompletionOptions& options);

// Prints the script. Returns the exit code.
ExitCode RunCompletion(const CompletionOptions& options);

// Answers a script, which calls the program as `lockstep __complete WORDS…`: prints each word that
// can follow on a line, and ":files" where names of files can. Returns false if this is no such
// call.
bool AnswerCompletion(const CLI::App& app, const std::vector<std::string>& arguments);

}  // namespace lockstep::cli
