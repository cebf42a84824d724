// `lockstep convert FILE`.
#pragma once

#include <string>

namespace lockstep::cli {

// Prints every TFJob and PyTorchJob of the file as a TrainingJob and everything else as it is;
// notes go to stderr. Returns the exit code: usage if one cannot be converted, or none is there.
int ConvertJobs(const std::string& file);

}  // namespace lockstep::cli
