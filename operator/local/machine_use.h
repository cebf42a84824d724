// Which cores and GPUs this user's runs use on this machine, so that runs at the same time use
// different ones. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "base/host_identity.h"

namespace lockstep::local {

class MachineUse {
 public:
  // Keeps its locks in a file in `folder`, which only this user can write to: see LockFolder.
  // `machine` tells this one from others with the same home directory. FailedPrecondition: the file
  // cannot be opened.
  static absl::StatusOr<MachineUse> Open(const std::string& folder, std::string machine = BootId());

  // Returns how many other runs use the resource ("cpu-3", "gpu-0"), at most 64; 0 where the file
  // system has no locks.
  int Others(const std::string& resource) const;
  // From now on this run uses the resource, until Release, or until this object or the process
  // ends. False if `others` other runs do so no more: one has begun to meanwhile.
  bool Take(const std::string& resource, int others);
  void Release(const std::string& resource);

 private:
  MachineUse(Descriptor file, std::string machine)
      : file_(std::move(file)), machine_(std::move(machine)) {}
  off_t FirstByteOf(const std::string& resource) const;

  Descriptor file_;
  std::string machine_;
  std::map<std::string, off_t> taken_;  // the byte that is locked for each resource
};

// Returns the parts, each with the number of other runs that use it: first those with the least
// `load`, which is of this run, and among equals those that the fewest other runs use. A part has
// the name of its `resource`. If `use` is null, there are no other runs.
template <typename Part, typename Owner, typename Load>
std::vector<std::pair<Part*, int>> ByUse(const std::vector<Part*>& parts, Load Owner::* load,
                                         const MachineUse* use) {
  std::vector<std::pair<Part*, int>> by_use;
  for (Part* part : parts) by_use.emplace_back(part, use ? use->Others(part->resource) : 0);
  std::ranges::stable_sort(
      by_use, {}, [load](const auto& one) { return std::pair(one.first->*load, one.second); });
  return by_use;
}

// Returns the first `count` of these parts, or all if there are fewer, and takes them in `use`.
template <typename Part, typename Load>
std::vector<Part*> TakeLeastUsed(const std::vector<Part*>& parts, std::size_t count,
                                 Load Part::* load, MachineUse* use) {
  while (true) {
    std::vector<std::pair<Part*, int>> by_use = ByUse(parts, load, use);
    by_use.resize(std::min(count, by_use.size()));
    std::vector<Part*> taken;
    for (const auto& [part, others] : by_use) {
      if (use == nullptr || use->Take(part->resource, others)) taken.push_back(part);
    }
    if (taken.size() == by_use.size()) return taken;
  }
}

}  // namespace lockstep::local
