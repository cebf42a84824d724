// The only place that knows all backends.
#include "base/check.h"
#include "trainer/backend/async_reference/async_reference.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/cpu.h"
#include "trainer/backend/reference/reference.h"

namespace lockstep::train {

std::unique_ptr<Backend> MakeBackend(const BackendOptions& options) {
  LOCKSTEP_CHECK(options.threads >= 1, "back end {}: found {} threads, expected at least 1",
                 options.name, options.threads);
  if (options.name == "reference") return MakeReferenceBackend();
  if (options.name == "cpu") return MakeCpuBackend(options.threads);
  if (options.name == "async-reference") return MakeAsyncReferenceBackend(MakeReferenceBackend());
  LOCKSTEP_CHECK(false,
                 "back end: found \"{}\", expected \"reference\", \"cpu\" or \"async-reference\"",
                 options.name);
  return nullptr;
}

}  // namespace lockstep::train
