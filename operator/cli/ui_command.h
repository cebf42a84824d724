// `lockstep ui`.
#pragma once

#include <string>

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct UiOptions {
  ClusterOptions cluster;
  bool all_namespaces = false;
  std::string work_dir;         // of runs on this machine; empty: a cluster's jobs
  int port = 0;                 // 0: any that is free
  std::string output = "text";  // or json: one object with the URL
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddUiCommand(CLI::App& app, UiOptions& options);

// Serves the page until a signal ends the program. Returns only if it cannot serve, with the exit
// code.
ExitCode RunUi(const UiOptions& options);

}  // namespace lockstep::cli
