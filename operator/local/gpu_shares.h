// Assigns this machine's GPUs to pods. Pure bookkeeping. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lockstep::local {

// The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: those that `visible`, its
// value, lists, else all that NVIDIA's driver lists in `driver_folder`.
std::vector<std::string> PermittedGpus(
    const char* visible, const std::string& driver_folder = "/proc/driver/nvidia/gpus");

class GpuShares {
 public:
  explicit GpuShares(const std::vector<std::string>& gpus);

  // Returns `count` GPUs for `owner`, those that the fewest others have first; all of them if there
  // are no more. Returns the same GPUs for an owner until GiveBack.
  std::vector<std::string> Take(const std::string& owner, std::size_t count);
  void GiveBack(const std::string& owner);

 private:
  struct Gpu {
    std::string name;
    int owners = 0;
  };

  std::vector<Gpu> gpus_;
  std::map<std::string, std::vector<std::string>> shares_;
};

}  // namespace lockstep::local
