// What the page gets of jobs, as JSON. Times are milliseconds since 1970; what is not known is
// null. No text has a character that sets the direction of text or moves a cursor. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "operator/cli/text/curve.h"
#include "operator/cli/ui/job_source.h"

namespace lockstep::cli {

nlohmann::ordered_json MillisOrNull(const std::optional<Time>& time);

// A line of the list: state, progress, restarts.
nlohmann::ordered_json ListedJson(const ListedJob& listed);

// Everything of one job: the line of the list, what it waits for or failed by in words, conditions,
// replicas, events, ranks (as `top --output json`), curve. Has at most 200 ranks and as many
// replicas, whatever the job has, and says how many were left out; but all replicas' names.
nlohmann::ordered_json LookJson(const JobLook& look, const Curve& curve);

// Makes each text of `json` printable.
void MakePrintable(nlohmann::ordered_json& json);

}  // namespace lockstep::cli
