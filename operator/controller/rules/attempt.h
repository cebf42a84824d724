// An attempt: the time from the creation of a gang's pods to the loss of one of them. Pure.
#pragma once

#include <string>

#include "operator/controller/state/observed.h"

namespace lockstep::controller {

// Forgets which replicas have completed, except of Independent replicas, which do not run again.
void ForgetCompleted(const api::TrainingJob& job, api::TrainingJobStatus& status);

// Ends the present attempt and increments the number, so that its pods can be told from the next
// attempt's. The next attempt keeps only what Independent replicas have completed. Charges nothing.
void CloseAttempt(const api::TrainingJob& job, api::TrainingJobStatus& status);

// Starts all pods again under the next number, once those of the present attempt are deleted.
// Writes `reason` and `message` to the conditions. Charges nothing.
void OpenNextAttempt(const Observed& observed, const std::string& reason,
                     const std::string& message, api::TrainingJobStatus& status);

}  // namespace lockstep::controller
