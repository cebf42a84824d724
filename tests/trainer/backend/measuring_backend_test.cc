#include "trainer/backend/measuring_backend.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "trainer/core/arena.h"

namespace lockstep::train {
namespace {

std::unique_ptr<Backend> Cpu() {
  return MakeBackend({.name = "cpu", .threads = 2});
}

TEST(MeasuringBackendTest, OpsNeedWhatThoseOfTheOtherBackEndNeed) {
  ReservedMemory memory;
  const auto measuring = MakeMeasuringBackend(Cpu(), memory);
  const auto cpu = Cpu();
  const std::vector<OpSpec> specs = {
      Conv2dSpec{.x = {{8, 16, 12, 12}}, .filters = 32, .kernel_h = 3, .kernel_w = 3},
      BatchNormSpec{.x = {{8, 16, 12, 12}}}, DropoutSpec{.x = {{8, 100}}}};
  for (const OpSpec& spec : specs) {
    const auto measured = measuring->MakeOp(spec), real = cpu->MakeOp(spec);
    EXPECT_EQ(measured->output().bytes(), real->output().bytes());
    EXPECT_EQ(measured->WorkspaceBytes(), real->WorkspaceBytes());
    EXPECT_EQ(measured->ScratchBytes(), real->ScratchBytes());
  }
}

TEST(MeasuringBackendTest, CountsMemoryThatNoMachineHas) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer leaves a program fewer addresses than it reserves here";
#endif
  ReservedMemory memory;
  const auto backend = MakeMeasuringBackend(Cpu(), memory);
  constexpr std::size_t kTebibytes = std::size_t{16} << 40;
  {
    Arena arena;
    const std::size_t offset = arena.Reserve(kTebibytes);
    arena.Allocate(backend->memory());
    EXPECT_EQ(memory.bytes(), kTebibytes);
    backend->Zero(arena.At(offset), kTebibytes);  // would end this process if it touched it
  }
  EXPECT_EQ(memory.bytes(), 0u);
}

TEST(MeasuringBackendTest, RefusesToLookAtMemory) {
  ReservedMemory memory;
  const auto backend = MakeMeasuringBackend(Cpu(), memory);
  float value = 1;
  EXPECT_THROW(backend->Download(&value, &value, sizeof(value)), CheckFailure);
  EXPECT_THROW(MakeMeasuringBackend(MakeBackend({.name = "async-reference"}), memory),
               CheckFailure);
}

}  // namespace
}  // namespace lockstep::train
