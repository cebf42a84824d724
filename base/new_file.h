// Writes files in folders that others may write to as well. Thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/descriptor.h"

namespace lockstep {

// Creates the file, with `mode` less the umask, and opens it for writing. Removes whatever has its
// name, unless that is a folder, and opens nothing that was there before: whoever may write to the
// folder could have put a link to a file of this user's there. On failure returns a descriptor
// without a file, and errno says why: EISDIR for a folder, EEXIST if somebody creates the name
// again and again.
Descriptor CreateAnew(const std::string& path, mode_t mode);

// Replaces the file by one with this text in one step, so that readers find the old text or the new
// one. Uses the name PATH.new in between. On failure the code is that of the failed call, and the
// message names the file.
absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode);

}  // namespace lockstep
