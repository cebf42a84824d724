// `lockstep render FILE`.
#pragma once

#include "operator/cli/exit_codes.h"
#include "operator/cli/shared_options.h"

namespace lockstep::cli {

struct RenderOptions {
  JobFileOptions job;
};

// Adds the verb to `app` and returns it. Parsing fills `options`, which must outlive it.
CLI::App* AddRenderCommand(CLI::App& app, RenderOptions& options);

// Prints the file's companion objects and the Service, PodGroup and pods that the operator would
// create for the job, as YAML. Returns the exit code.
ExitCode RunRender(const RenderOptions& options);

}  // namespace lockstep::cli
