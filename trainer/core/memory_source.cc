#include "trainer/core/memory_source.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace lockstep::train {
namespace {

class MappedMemory final : public MemorySource {
 public:
  std::byte* Allocate(std::size_t bytes) override {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LOCKSTEP_CHECK(memory != MAP_FAILED, "host memory: cannot map {} bytes: {}", bytes,
                   std::strerror(errno));
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a hint: refusal only costs speed
    return static_cast<std::byte*>(memory);
  }
  void Free(std::byte* memory, std::size_t bytes) override { ::munmap(memory, bytes); }
};

}  // namespace

MemorySource& HostMemory() {
  static MappedMemory memory;
  return memory;
}

}  // namespace lockstep::train
