// How many processes torchrun starts in a pod of a PyTorchJob. Pure.
#pragma once

#include <nlohmann/json.hpp>

#include "operator/cli/files/parts.h"

namespace lockstep::cli {

// Takes `field`, the number, out of `source` and into the strategy of `to`, a TrainingJob's spec.
// Notes what is no number, such as "auto". A number that does not fit is left to the validation.
void ConvertProcesses(Parts& source, const char* field, nlohmann::ordered_json& to);

// Notes the pods in which torchrun starts one process where Kubeflow's default, "auto", may have it
// start more: `to` states no number, and nothing that the operator counts is in their limits.
// Requires: `to` has its replicaSpecs.
void NoteUncountedProcesses(Parts& source, const nlohmann::ordered_json& to);

}  // namespace lockstep::cli
