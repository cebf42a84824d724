// What another user who may write to a folder could put in place of a file: a link to a file of
// this user's.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::testing {

enum class Link { kSymbolic, kHard };
inline constexpr Link kLinks[] = {Link::kSymbolic, Link::kHard};

// Replaces what is at `path`, if anything is, by a link to the existing file `victim`.
inline void PlantLink(const std::string& path, const std::string& victim, Link link) {
  std::filesystem::remove(path);
  if (link == Link::kSymbolic) return std::filesystem::create_symlink(victim, path);
  std::filesystem::create_hard_link(victim, path);
}

}  // namespace lockstep::testing
