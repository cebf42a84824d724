// Formats training progress as one line for users. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"

namespace lockstep::cli {

// Returns "epoch 1.5/2  step 704/938  loss 0.0312  accuracy 98.91 %  1,234 images/s  0:12 left",
// without unknown values.
std::string ProgressLine(const api::Progress& progress);

// Returns "0:12" or "1:02:03".
std::string FormatSeconds(double seconds);

}  // namespace lockstep::cli
