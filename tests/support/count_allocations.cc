#include "tests/support/count_allocations.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace lockstep {
namespace {
std::atomic<long> g_allocations{0};
}  // namespace

long Allocations() {
  return g_allocations.load();
}

}  // namespace lockstep

void* operator new(std::size_t bytes) {
  ++lockstep::g_allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
