// Maps a container's mounted paths to paths on this machine and rewrites texts that contain them.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::local {

class PathMap {
 public:
  // Maps `container_path` (absolute) and everything below it to `host_path`.
  void Add(std::string container_path, std::string host_path);

  // Replaces every path under a mount, wherever it occurs: "/data/x", "--dir=/data", a word of a
  // shell script, a string inside JSON. Leaves "/mnt/data", "/database" and "s3://b/data"
  // unchanged, and all of a JSON object or list except its strings.
  std::string Rewrite(std::string_view text) const;

 private:
  struct Entry {
    std::string from, to;
  };

  // Returns the longest mount that `text` names at `pos`, or null.
  const Entry* Find(std::string_view text, std::size_t pos) const;
  std::string RewriteText(std::string_view text) const;
  std::string RewriteJson(std::string_view json) const;

  std::vector<Entry> entries_;  // longest `from` first
};

}  // namespace lockstep::local
