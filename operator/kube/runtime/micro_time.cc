#include "operator/kube/runtime/micro_time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace lockstep::kube {

std::string MicroTime(Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), micros);
}

}  // namespace lockstep::kube
