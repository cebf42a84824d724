// `lockstep render FILE` and `lockstep validate FILE`.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

// Prints the file's companion objects and every object that the operator would create for the job,
// as YAML. Returns the exit code.
int RenderJob(const std::string& file, const std::vector<std::string>& sets);

// Prints the faults of the file, or that it is valid. Returns the exit code.
int ValidateJob(const std::string& file, const std::vector<std::string>& sets);

}  // namespace lockstep::cli
