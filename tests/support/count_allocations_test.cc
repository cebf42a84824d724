#include "tests/support/count_allocations.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// The compiler may leave out an allocation whose memory nobody sees.
void* volatile g_memory = nullptr;

TEST(CountAllocationsTest, ItSeesEachKind) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr std::align_val_t kAligned{64};
  const std::vector<std::pair<std::string, std::function<void()>>> kinds = {
      {"new",
       [] {
         g_memory = ::operator new(kBytes);
         ::operator delete(g_memory);
       }},
      {"new[]",
       [] {
         g_memory = ::operator new[](kBytes);
         ::operator delete[](g_memory);
       }},
      {"aligned new",
       [] {
         g_memory = ::operator new(kBytes, kAligned);
         ::operator delete(g_memory, kAligned);
       }},
      {"malloc",
       [] {
         g_memory = std::malloc(kBytes);
         std::free(g_memory);
       }},
      {"calloc",
       [] {
         g_memory = std::calloc(kBytes / 8, 8);
         std::free(g_memory);
       }},
      {"realloc",
       [] {
         g_memory = std::realloc(std::malloc(1), kBytes);
         std::free(g_memory);
       }},
#if !defined(__SANITIZE_THREAD__)  // which does not tell of these
      {"aligned_alloc",
       [] {
         g_memory = std::aligned_alloc(64, kBytes);
         std::free(g_memory);
       }},
      {"posix_memalign",
       [] {
         void* memory = nullptr;
         ASSERT_EQ(posix_memalign(&memory, 64, kBytes), 0);
         g_memory = memory;
         std::free(memory);
       }},
#endif
  };
  for (const auto& [name, allocate] : kinds) {
    const long before = Allocations();
    ForgetLargestAllocation();
    allocate();
    EXPECT_GE(Allocations() - before, 1) << name;
    EXPECT_EQ(LargestAllocation(), kBytes) << name;
  }
  const long before = Allocations();
  ForgetLargestAllocation();
  EXPECT_EQ(Allocations(), before);
  EXPECT_EQ(LargestAllocation(), 0u);
}

}  // namespace
}  // namespace lockstep
