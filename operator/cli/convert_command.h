// `lockstep convert FILE`.
#pragma once

#include <string>

namespace lockstep::cli {

// Prints each TFJob and PyTorchJob of the file as a TrainingJob and everything else unchanged;
// prints notes to stderr. Returns the exit code: that of wrong usage if a job cannot be converted
// or there is none.
int ConvertJobs(const std::string& file);

}  // namespace lockstep::cli
