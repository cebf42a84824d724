// Assigns this machine's GPUs to pods. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "operator/local/machine_use.h"

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
  // `use` says which GPUs other runs use, and is told of ours; null: no other run uses any.
  explicit GpuShares(const std::vector<std::string>& gpus, MachineUse* use = nullptr);

  // Returns `count` GPUs for `owner`, those with the fewest owners first, among equals those that
  // the fewest other runs use, or all GPUs if there are fewer. Until GiveBack, later calls for the
  // same owner return the same GPUs, whatever their `count`.
  std::vector<std::string> Take(const std::string& owner, std::size_t count);
  // Returns `count` GPUs for what runs before those that have taken `theirs`: of these or, if they
  // are too few, with others that `owner` takes.
  std::vector<std::string> Before(std::vector<std::string> theirs, const std::string& owner,
                                  std::size_t count);
  void GiveBack(const std::string& owner);

 private:
  struct Gpu {
    std::string name;
    std::string resource;  // its name in MachineUse
    int owners = 0;
  };

  std::vector<std::string> TakeOf(const std::vector<Gpu*>& gpus, const std::string& owner,
                                  std::size_t count);

  std::vector<Gpu> gpus_;
  MachineUse* const use_;
  std::map<std::string, std::vector<std::string>> shares_;
};

}  // namespace lockstep::local
