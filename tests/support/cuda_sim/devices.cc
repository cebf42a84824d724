#include "tests/support/cuda_sim/devices.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace cuda_sim {
namespace {

std::array<char, 64> contexts;  // their addresses are the handles
thread_local int current_device = -1;
std::array<std::atomic<bool>, contexts.size()> failed;
std::atomic<long> kernels_run = 0;

std::vector<std::string> Names() {
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  std::istringstream words(list == nullptr ? "0" : list);
  std::vector<std::string> names;
  for (std::string name; std::getline(words, name, ',');) names.push_back(name);
  return names;
}

}  // namespace

int VisibleDevices() {
  const char* gone = std::getenv("CUDA_SIM_GONE");
  const int names = static_cast<int>(std::min(Names().size(), contexts.size()));
  return std::max(names - (gone == nullptr ? 0 : std::atoi(gone)), 0);
}

bool IsDevice(int ordinal) {
  return ordinal >= 0 && ordinal < VisibleDevices();
}

std::array<char, 16> UuidOf(int ordinal) {
  const std::string name = Names().at(static_cast<std::size_t>(ordinal));
  std::array<char, 16> uuid = {};
  std::copy_n(name.begin(), std::min(name.size(), uuid.size()), uuid.begin());
  return uuid;
}

void* ContextOf(int ordinal) {
  return &contexts.at(static_cast<std::size_t>(ordinal));
}

bool SetContext(const void* context) {
  int found = -1;
  for (int ordinal = 0; context != nullptr && found < 0; ++ordinal) {
    if (!IsDevice(ordinal)) return false;
    if (context == ContextOf(ordinal)) found = ordinal;
  }
  current_device = found;
  return true;
}

int CurrentDevice() {
  return current_device;
}

Result ContextError() {
  if (current_device < 0) return kInvalidContext;
  return HasFailed(current_device) ? kIllegalAddress : kSuccess;
}

bool HasFailed(int ordinal) {
  return failed.at(static_cast<std::size_t>(ordinal));
}

bool FailsNow(int ordinal) {
  static const char* const fails_at = std::getenv("CUDA_SIM_FAILS_AT");
  if (fails_at == nullptr || ++kernels_run != std::atol(fails_at)) return false;
  failed.at(static_cast<std::size_t>(ordinal)) = true;
  return true;
}

}  // namespace cuda_sim
