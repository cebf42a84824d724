// Assigns cores to containers: a CPU limit becomes an affinity mask. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "operator/local/machine_use.h"

namespace lockstep::local {

class CpuShares {
 public:
  // `cpus` are the cores that this process may use. Without limits, `expected_pods` share them
  // evenly, at least one core each. `use` says which cores other runs use, and is told of ours;
  // null: no other run uses any.
  CpuShares(const std::vector<int>& cpus, int expected_pods, MachineUse* use = nullptr);

  // Returns the least loaded cores for `owner`, among equals those that the fewest other runs use,
  // in ascending order: ceil(limit) of them, or an even share; never more than there are. Returns
  // the same cores for an owner until GiveBack.
  std::vector<int> Take(const std::string& owner, std::optional<std::int64_t> limit_milli);
  // Returns the cores for what runs before those that have taken `theirs`: as many as Take would,
  // of `theirs` or, if these are too few, with the least loaded others. Counts no load.
  std::vector<int> Before(std::vector<int> theirs, std::optional<std::int64_t> limit_milli) const;
  // Returns all cores, and counts no load: for an owner that works while others wait for it.
  std::vector<int> All() const;
  void GiveBack(const std::string& owner);

 private:
  struct Core {
    int cpu = 0;
    std::string resource;   // its name in MachineUse
    std::int64_t load = 0;  // thousandths of a core that are assigned
  };
  struct Share {
    std::vector<int> cpus;
    std::int64_t load_per_core = 0;
  };

  std::size_t CountOf(std::optional<std::int64_t> limit_milli) const;

  std::vector<Core> cores_;
  const std::size_t even_share_;
  MachineUse* const use_;
  std::map<std::string, Share> shares_;
};

}  // namespace lockstep::local
