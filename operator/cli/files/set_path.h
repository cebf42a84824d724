// `--set spec.training.epochs=3`: changes one value of a document. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"

namespace lockstep::cli {

// `assignment` is PATH=VALUE. PATH: names joined by dots, list entries as [0] or .0 (the length of
// the list appends), "\." for a dot inside a name. VALUE: YAML, so 3 is a number, "3" a string, [1,
// 2] a list. Creates absent objects. InvalidArgument names the path, what was found and what is
// expected.
absl::Status ApplySet(const std::string& assignment, nlohmann::json& document);

}  // namespace lockstep::cli
