// The kernels that the simulated device knows, by name.
#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "tests/support/cuda_sim/device_memory.h"

namespace cuda_sim {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};
// Where the running thread is: threadIdx, blockIdx, blockDim, gridDim.
struct Position {
  Index thread, block, threads, blocks;
};

struct Kernel {
  std::string name;
  bool meets = false;  // its threads call __syncthreads
  // Copies the arguments and returns what runs one thread with them.
  std::function<std::function<void()>(void** arguments)> bind;
};

// Null if there is none of that name.
const Kernel* FindKernel(const std::string& name);
// Runs all threads of a grid.
void RunGrid(const Kernel& kernel, const std::function<void()>& thread, Index blocks,
             Index threads);

// Lists a kernel before main.
class ListedKernel {
 public:
  template <typename... Parameters>
  ListedKernel(const char* name, void (*function)(Parameters...), bool meets) {
    static_assert(((std::is_pointer_v<Parameters> || std::is_arithmetic_v<Parameters>) && ...),
                  "a kernel takes pointers and numbers only");
    Add({.name = name, .meets = meets, .bind = [function](void** arguments) {
           return Bound(function, arguments, std::index_sequence_for<Parameters...>());
         }});
  }

 private:
  static void Add(Kernel kernel);
  template <typename... Parameters, std::size_t... I>
  static std::function<void()> Bound(void (*function)(Parameters...), void** arguments,
                                     std::index_sequence<I...>) {
    // The real addresses are asked for when the kernel runs: by then the memory may be gone.
    return [function, values = std::tuple(*static_cast<Parameters*>(arguments[I])...)] {
      std::apply([function](auto... value) { function(Real(value)...); }, values);
    };
  }
  template <typename T>
  static T Real(T value) {
    if constexpr (std::is_pointer_v<T>) {
      return static_cast<T>(const_cast<void*>(RealAddress(value)));
    } else {
      return value;
    }
  }
};

}  // namespace cuda_sim
