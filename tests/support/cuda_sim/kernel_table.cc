#include "tests/support/cuda_sim/kernel_table.h"

#include <map>
#include <utility>

#include "tests/support/cuda_sim/block_threads.h"

namespace cuda_sim {
namespace {

std::map<std::string, Kernel>& Kernels() {
  static std::map<std::string, Kernel> kernels;
  return kernels;
}

// Calls visit(x, y, z) for every index below `end`, x fastest.
template <typename Visit>
void ForEachIndex(const Index& end, const Visit& visit) {
  for (unsigned z = 0; z < end.z; ++z) {
    for (unsigned y = 0; y < end.y; ++y) {
      for (unsigned x = 0; x < end.x; ++x) visit(Index{x, y, z});
    }
  }
}

}  // namespace

constinit thread_local Position position;

void ListedKernel::Add(Kernel kernel) {
  const std::string name = kernel.name;
  Kernels()[name] = std::move(kernel);
}

const Kernel* FindKernel(const std::string& name) {
  const auto found = Kernels().find(name);
  return found == Kernels().end() ? nullptr : &found->second;
}

void RunGrid(const Kernel& kernel, const std::function<void()>& thread, Index blocks,
             Index threads) {
  position = {.threads = threads, .blocks = blocks};
  ForEachIndex(blocks, [&](const Index& block) {
    position.block = block;
    if (kernel.meets) {
      RunMeetingBlock(thread);
      return;
    }
    ForEachIndex(threads, [&](const Index& index) {
      position.thread = index;
      thread();
    });
  });
}

}  // namespace cuda_sim
