// An attempt: everything from the creation of a gang's pods to the loss of one of them. Pure.
#pragma once

#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Ends the present attempt: its pods can be told from the next one's, which has nothing of it but
// what Independent replicas have completed. Charges nothing.
void CloseAttempt(const api::TrainingJob& job, api::TrainingJobStatus& status);

// All pods start again under the next number; those of the present one are to be deleted first.
// `reason` and `message` stand in the conditions. Charges nothing.
void OpenNextAttempt(const Observed& observed, const std::string& reason,
                     const std::string& message, api::TrainingJobStatus& status);

}  // namespace lockstep::controller
