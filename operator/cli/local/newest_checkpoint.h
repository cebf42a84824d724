// Finds the checkpoint that a job of the bundled trainer would go on from.
#pragma once

#include <string>

namespace lockstep::cli {

// Returns the path of the newest complete checkpoint in the folder, that of the highest step; empty
// if there is none. `of_variants`: the folder has one for each variant of the job, and these have
// the checkpoints; of their newest ones, the one whose manifest was written last.
std::string NewestCheckpoint(const std::string& folder, bool of_variants);

}  // namespace lockstep::cli
