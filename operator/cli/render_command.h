// `lockstep render FILE` and `lockstep validate FILE`.
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

// Prints every object that the operator would create for the job, as YAML. Returns the exit code.
int RenderJob(const std::string& file, const std::vector<std::string>& sets);

// Says what is wrong with the file, or that nothing is. Returns the exit code.
int ValidateJob(const std::string& file, const std::vector<std::string>& sets);

}  // namespace lockstep::cli
