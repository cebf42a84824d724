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

// Returns the GPUs that this process may use, named as in CUDA_VISIBLE_DEVICES. `visible` is that
// variable's value: if it is not null, the GPUs that it lists; else one for each device file that
// can be opened. If no device file exists, but files.node_maker does (it creates them when CUDA is
// first used), the driver's list counts; otherwise it does not, because in a container it also has
// GPUs that the container may not use.
std::vector<std::string> PermittedGpus(const char* visible, const GpuFiles& files = {});

class GpuShares {
 public:
  explicit GpuShares(const std::vector<std::string>& gpus);

  // Returns `count` GPUs for `owner`, those with the fewest owners first, or all GPUs if there are
  // fewer. Until GiveBack, later calls for the same owner return the same GPUs, whatever their
  // `count`.
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
