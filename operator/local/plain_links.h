// Links of plain names to folders whose names a shell would take apart, or are not UTF-8. A mount
// path of a pod is neither, and a job's commands rely on that.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::local {

// Whether the path has a space or another character that means something to a shell.
bool HasShellCharacters(std::string_view path);
bool IsUtf8(std::string_view text);

// Returns the folder for the links of the run that uses this work directory: the same for each of
// its runs, since programs may store paths. It need not exist. FailedPrecondition: there is no such
// work directory.
absl::StatusOr<std::string> LinksFolder(const std::string& work_dir);

// Removes the links in the folder, and the folder if nothing else is in it. Does nothing unless it
// and the folder above are this user's own.
void RemoveLinks(const std::string& folder);

// Not thread-safe.
class PlainLinks {
 public:
  // Links will be made in `folder`, as LinksFolder names it. Requires: this run alone uses it.
  explicit PlainLinks(std::string folder);
  ~PlainLinks();  // removes the links
  PlainLinks(const PlainLinks&) = delete;
  PlainLinks& operator=(const PlainLinks&) = delete;

  // Returns another name of `path`, by a link to its last part that is not plain: so what is below,
  // such as a volume, is no link, which find, cp and rm would not follow. Requires: `path` is
  // absolute and has such a part. It need not exist. The same path always gets the same name.
  // FailedPrecondition: the link or its folder cannot be made.
  absl::StatusOr<std::string> To(const std::string& path);

 private:
  const std::string folder_;
};

}  // namespace lockstep::local
