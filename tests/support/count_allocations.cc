#include "tests/support/count_allocations.h"

#include <atomic>
#include <cerrno>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// From sanitizer/allocator_interface.h, which not every compiler comes with.
extern "C" int __sanitizer_install_malloc_and_free_hooks(
    void (*malloc_hook)(const volatile void* memory, std::size_t bytes),
    void (*free_hook)(const volatile void* memory));
#endif

namespace lockstep {
namespace {

std::atomic<long> g_allocations{0};
std::atomic<std::size_t> g_largest{0};

void Count(std::size_t bytes) {
  ++g_allocations;
  std::size_t largest = g_largest.load();
  while (bytes > largest && !g_largest.compare_exchange_weak(largest, bytes)) {
  }
}

}  // namespace

long Allocations() {
  return g_allocations.load();
}
std::size_t LargestAllocation() {
  return g_largest.load();
}
void ForgetLargestAllocation() {
  g_largest = 0;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer has replaced them itself.
namespace {
[[maybe_unused]] const int kInstalled = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t bytes) { Count(bytes); }, [](const volatile void*) {});
}  // namespace
#endif

}  // namespace lockstep

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {

// glibc's own, under the names that nobody replaces.
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

// The standard library's operator new calls malloc and aligned_alloc.
void* malloc(std::size_t bytes) noexcept {
  lockstep::Count(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  lockstep::Count(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) noexcept {
  lockstep::Count(bytes);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  lockstep::Count(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) noexcept {
  void* found = memalign(alignment, bytes);
  if (found == nullptr) return ENOMEM;
  *memory = found;
  return 0;
}

}  // extern "C"
#endif
