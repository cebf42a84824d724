// Where a container's mounted paths lie on this machine, and the rewriting of texts that name them.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::local {

class PathMap {
 public:
  // What lies at or under `container_path` (absolute) lies at or under `host_path`.
  void Add(std::string container_path, std::string host_path);

  // Every path under a mount replaced, wherever it stands: "/data/x", "--dir=/data", a word of a
  // shell script, a string inside JSON. "/mnt/data", "/database" and "s3://b/data" are left alone.
  std::string Rewrite(std::string_view text) const;

 private:
  struct Entry {
    std::string from, to;
  };

  // The mount that `text` names at `pos`, the longest first; null if none.
  const Entry* Find(std::string_view text, std::size_t pos) const;
  std::string RewriteText(std::string_view text) const;

  std::vector<Entry> entries_;  // longest `from` first
};

}  // namespace lockstep::local
