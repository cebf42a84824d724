// Which cores a container's processes may use: a CPU limit as an affinity mask. Pure bookkeeping.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::local {

class CpuShares {
 public:
  // `cpus`: the cores of this machine that we may use. `expected_pods` share them evenly where
  // they name no limit; at least 1.
  CpuShares(const std::vector<int>& cpus, int expected_pods);

  // The least-loaded cores for `owner`, in ascending order: ceil(limit) of them, or its even share.
  // Asking again for the same owner gives the same cores until it gives them back.
  std::vector<int> Take(const std::string& owner, std::optional<std::int64_t> limit_milli);
  void GiveBack(const std::string& owner);

 private:
  struct Core {
    int cpu = 0;
    double load = 0;  // thousandths of a core that are spoken for
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
