#include "trainer/backend/cpu/device/onednn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/log.h"

namespace lockstep::train::cpu {
namespace {

// The values that oneDNN 3.2 knows, in upper or lower case.
constexpr std::array<std::string_view, 12> kIsaNames = {"SSE41",
                                                        "AVX",
                                                        "AVX2",
                                                        "AVX2_VNNI",
                                                        "AVX2_VNNI_2",
                                                        "AVX512_CORE",
                                                        "AVX512_CORE_VNNI",
                                                        "AVX512_CORE_BF16",
                                                        "AVX512_CORE_FP16",
                                                        "AVX512_CORE_AMX",
                                                        "AVX512_CORE_AMX_FP16",
                                                        "DEFAULT"};

bool IsIsaName(std::string value) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::ranges::find(kIsaNames, value) != kIsaNames.end() ||
         value.starts_with("AVX10_");  // in later releases
}

// For an unknown name oneDNN silently uses all instruction sets, which the user did not mean.
void WarnOfUnknownIsa() {
  // oneDNN's precedence: it reads the second if the first is unset or empty.
  for (const char* variable : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    if (!IsIsaName(value)) {
      LogWarning(
          fmt::format("{} is '{}', expected one of {}: oneDNN ignores it, and the trainer "
                      "uses every instruction set of this processor",
                      variable, value, fmt::join(kIsaNames, ", ")));
    }
    return;
  }
}

}  // namespace

// Follows oneDNN's choice, so that ONEDNN_MAX_CPU_ISA limits both.
Isa EffectiveIsa() {
  [[maybe_unused]] static const bool warned = (WarnOfUnknownIsa(), true);
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto covers = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (covers(dnnl::cpu_isa::avx512_core)) return Isa::kAvx512;
  return covers(dnnl::cpu_isa::avx2) ? Isa::kAvx2 : Isa::kBaseline;
}

std::shared_ptr<Onednn> MakeOnednn() {
  return std::make_shared<Onednn>();
}

}  // namespace lockstep::train::cpu
