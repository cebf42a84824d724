// A plan for people. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace lockstep::cli {

// Returns a summary of the layers as Keras prints it, then steps, communication, checkpoint and
// memory, one line each. `plan` is the trainer's object (see AskForPlan); its names are those of a
// file that others may have written, so nothing of it acts on a terminal or passes for another
// line. Ends with a newline.
std::string PlanText(const nlohmann::ordered_json& plan);

// "1,234,567"
std::string WithCommas(std::int64_t number);

// "1 step", "1,234 steps"
std::string Plural(std::int64_t count, const std::string& noun);
// "512 B", "1.5 KiB", "12.3 MiB", "4.0 GiB"
std::string ByteText(std::int64_t bytes);

}  // namespace lockstep::cli
