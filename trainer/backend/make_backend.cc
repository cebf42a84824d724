// The only place that knows all backends.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "trainer/backend/async_reference/async_reference.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/cpu.h"
#include "trainer/backend/cuda/cuda.h"
#include "trainer/backend/reference/reference.h"

namespace lockstep::train {
namespace {

struct KnownBackend {
  const char* name;
  std::unique_ptr<Backend> (*make)(const BackendOptions& options);
};
constexpr std::array<KnownBackend, 4> kKnown = {{
    {"cpu", [](const BackendOptions& options) { return MakeCpuBackend(options.threads); }},
    {"cuda",
     [](const BackendOptions& options) {
       return MakeCudaBackend(options.device, options.devices, options.rounds_to_tf32);
     }},
    {"reference", [](const BackendOptions&) { return MakeReferenceBackend(); }},
    {"async-reference",
     [](const BackendOptions&) { return MakeAsyncReferenceBackend(MakeReferenceBackend()); }},
}};

}  // namespace

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  std::ranges::transform(kKnown, std::back_inserter(names), &KnownBackend::name);
  return names;
}

std::unique_ptr<Backend> MakeBackend(const BackendOptions& options) {
  LOCKSTEP_CHECK(options.threads >= 1, "back end {}: found {} threads, expected at least 1",
                 options.name, options.threads);
  const auto* const known = std::ranges::find(kKnown, options.name, &KnownBackend::name);
  LOCKSTEP_CHECK(known != kKnown.end(), "back end: found \"{}\", expected one of {}", options.name,
                 fmt::join(BackendNames(), ", "));
  return known->make(options);
}

}  // namespace lockstep::train
