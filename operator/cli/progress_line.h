// How training goes, in one line for people. Pure.
#pragma once

#include <string>

#include "api/v1/training_job.h"

namespace lockstep::cli {

// "epoch 1.5/2  step 704/938  loss 0.0312  accuracy 98.91 %  1,234 images/s  0:12 left"; what is
// not known is left out.
std::string ProgressLine(const api::Progress& progress);

// "0:12", "1:02:03".
std::string FormatSeconds(double seconds);

}  // namespace lockstep::cli
