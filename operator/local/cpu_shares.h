// Assigns cores to containers: a CPU limit becomes an affinity mask. Pure bookkeeping. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::local {

class CpuShares {
 public:
  // `cpus` are the cores that this process may use. Without limits, `expected_pods` share them
  // evenly, at least one core each.
  CpuShares(const std::vector<int>& cpus, int expected_pods);

  // Returns the least loaded cores for `owner`, in ascending order: ceil(limit) of them, or an even
  // share; never more than there are. Returns the same cores for an owner until GiveBack.
  std::vector<int> Take(const std::string& owner, std::optional<std::int64_t> limit_milli);
  // Returns all cores, and counts no load: for an owner that works while others wait for it.
  std::vector<int> All() const;
  void GiveBack(const std::string& owner);

 private:
  struct Core {
    int cpu = 0;
    double load = 0;  // thousandths of a core that are assigned
  };
  struct Share {
    std::vector<int> cpus;
    double load_per_core = 0;
  };

  std::vector<Core> cores_;
  const std::size_t even_share_;
  std::map<std::string, Share> shares_;
};

}  // namespace lockstep::local
