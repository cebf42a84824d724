#include "tests/support/cuda_sim/block_threads.h"

#include <ucontext.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/support/cuda_sim/kernel_table.h"

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_sim {

extern constinit thread_local Position position;
void MeetBlock();

namespace {

constexpr std::size_t kStackBytes = 64 << 10;

// A fiber, and under ThreadSanitizer its counterpart there, of which there may be 8128 at a time.
struct Fiber {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack;
  bool is_done = true;
#ifdef __SANITIZE_THREAD__
  void* tsan = nullptr;
  ~Fiber() {
    const bool is_own = stack != nullptr;  // not that of the thread itself
    if (is_own) __tsan_destroy_fiber(tsan);
  }
#endif
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;  // kept for the next block
  Fiber host;
  Fiber* running = nullptr;
  const std::function<void()>* thread = nullptr;
};
thread_local Block block;

void Switch(Fiber& from, Fiber& to) {
#ifdef __SANITIZE_THREAD__
  __tsan_switch_to_fiber(to.tsan, 0);
#endif
  ::swapcontext(&from.context, &to.context);
}

void RunFiber() {
  (*block.thread)();
  block.running->is_done = true;
  Switch(*block.running, block.host);
}

void Prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
#ifdef __SANITIZE_THREAD__
    fiber.tsan = __tsan_create_fiber(0);
#endif
  }
  ::getcontext(&fiber.context);
  fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_size = kStackBytes};
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, &RunFiber, 0);
  fiber.is_done = false;
}

}  // namespace

void RunMeetingBlock(const std::function<void()>& thread) {
  const Index threads = position.threads;
  const std::size_t count = std::size_t{threads.x} * threads.y * threads.z;
  while (block.fibers.size() < count) block.fibers.push_back(std::make_unique<Fiber>());
#ifdef __SANITIZE_THREAD__
  block.host.tsan = __tsan_get_current_fiber();
#endif
  block.thread = &thread;
  for (std::size_t i = 0; i < count; ++i) Prepare(*block.fibers[i]);
  // Each round runs every thread to its next meeting, or to its end.
  for (bool is_one_left = true; is_one_left;) {
    is_one_left = false;
    for (std::size_t i = 0; i < count; ++i) {
      Fiber& fiber = *block.fibers[i];
      if (fiber.is_done) continue;
      const auto number = static_cast<unsigned>(i);
      position.thread = {number % threads.x, number / threads.x % threads.y,
                         number / threads.x / threads.y};
      block.running = &fiber;
      Switch(block.host, fiber);
      is_one_left |= !fiber.is_done;
    }
  }
  block.running = nullptr;
}

void MeetBlock() {
  if (block.running == nullptr) {
    std::fprintf(stderr,
                 "cuda_sim: __syncthreads in a kernel that is not a LOCKSTEP_BLOCK_KERNEL\n");
    std::abort();
  }
  Switch(*block.running, block.host);
}

}  // namespace cuda_sim
