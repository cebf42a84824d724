// Assigns this machine's GPUs to pods. Pure bookkeeping. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace lockstep::local {

// Where NVIDIA's driver shows its GPUs.
struct GpuFiles {
  std::string devices = "/dev";                     // nvidia0, nvidia1, …: what CUDA opens
  std::string driver = "/proc/driver/nvidia/gpus";  // a folder for each GPU of the machine
  std::string node_maker = "/usr/bin/nvidia-modprobe";
};

// The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them: those that `visible`, its
// value, lists, else those whose device can be opened. The driver also lists those of the machine
// that a container may not use, and so counts only if there are no devices yet, but what makes them
// when CUDA is first used.
std::vector<std::string> PermittedGpus(const char* visible, const GpuFiles& files = {});

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
