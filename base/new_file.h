// Writes files in folders that others may write to as well. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/descriptor.h"

namespace lockstep {

// Creates the file, with `mode` less the umask, and opens it for writing. Removes whatever has its
// name, unless that is a folder, and opens nothing that was there before, since others who may
// write to the folder could have put there a link to one of this user's files. On failure returns a
// descriptor without a file, and errno says why: EISDIR for a folder, EEXIST if somebody creates
// the name again and again.
Descriptor CreateAnew(const std::string& path, mode_t mode);

// Opens the file for writing with these `flags` of open(2), and creates it, with `mode` less the
// umask, if there is none. For a file that must not be replaced by a new one, such as a lock or a
// log. Opening it never blocks, not even for a pipe. On failure returns a descriptor without a
// file, and errno says why: ELOOP for a link, symbolic or hard, since it could lead to a file of
// this user's elsewhere; ENXIO for a pipe, a socket or a device. Then nothing was written, not even
// by O_TRUNC.
Descriptor OpenOwn(const std::string& path, int flags, mode_t mode);

// Opens the file as OpenOwn does, but creates none: without one, errno is ENOENT. Requires: `flags`
// has neither O_CREAT nor O_TRUNC.
Descriptor OpenOwnIfThere(const std::string& path, int flags);
// The same for reading alone.
Descriptor OpenOwnToRead(const std::string& path);
// Returns the last bytes of such a file, at most `most`; empty if it cannot be read.
std::string ReadOwn(const std::string& path, std::size_t most);

// Creates the file as CreateAnew does, with this text. On failure the code is that of the failed
// call, the message names the file, and no part of it is left.
absl::Status WriteAnew(const std::string& path, std::string_view text, mode_t mode);

// Replaces the file by one with this text in one step, so that readers find the old text or the new
// one. Writes PATH.new first, so nothing else in the folder may have that name. On failure as
// WriteAnew, and the old file stays.
absl::Status ReplaceFile(const std::string& path, std::string_view text, mode_t mode);

}  // namespace lockstep
