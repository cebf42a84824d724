// Maps a container's mounted paths to paths on this machine and rewrites texts that contain them.
// Pure, but for what UseLinks calls.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep::local {

class PathMap {
 public:
  // Maps `container_path` (absolute) and everything below it to `host_path`.
  void Add(std::string container_path, std::string host_path);

  // Replaces each host path that a shell would take apart by the name that `link` gives it, except
  // in JSON, which no shell reads; and one that is not UTF-8, in JSON too. Returns the error of
  // `link`. Paths that are added later are not replaced.
  absl::Status UseLinks(
      const std::function<absl::StatusOr<std::string>(const std::string& host_path)>& link);

  // Replaces every path under a mount, wherever it occurs: "/data/x", "--dir=/data", a word of a
  // shell script, a string inside JSON. Leaves "/mnt/data", "/database" and "s3://b/data"
  // unchanged, and all of a JSON object or list except its strings.
  std::string Rewrite(std::string_view text) const;

 private:
  struct Entry {
    std::string from;
    std::string in_text, in_json;  // the host path, or another name of it
  };

  // Returns the longest mount that `text` names at `pos`, or null.
  const Entry* Find(std::string_view text, std::size_t pos) const;
  std::string RewriteText(std::string_view text, std::string Entry::* to) const;
  std::string RewriteJson(std::string_view json) const;

  std::vector<Entry> entries_;  // longest `from` first
};

}  // namespace lockstep::local
