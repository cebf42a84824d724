// Formats all that is known of one job, the cause of its trouble first. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "operator/cli/cluster/job_facts.h"

namespace lockstep::cli {

// Returns the state, what the job waits for or why it has failed, its settings, a line for each
// replica, the newest events and the log. Untrusted text is made safe for terminals.
std::string DescribeJob(const JobFacts& facts, Time now);

// Returns the same for programs, with every replica and event.
nlohmann::ordered_json JobDocument(const JobFacts& facts);

}  // namespace lockstep::cli
