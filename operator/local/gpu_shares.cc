#include "operator/local/gpu_shares.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace lockstep::local {

std::vector<std::string> PermittedGpus(const char* visible, const std::string& driver_folder) {
  std::vector<std::string> gpus;
  if (visible != nullptr) {
    std::istringstream names(visible);
    for (std::string name; std::getline(names, name, ',');) {
      // As CUDA does, ignores the first name that is not a GPU and every name after it.
      const bool is_number =
          !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_number && !name.starts_with("GPU-") && !name.starts_with("MIG-")) break;
      gpus.push_back(name);
    }
    return gpus;
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(driver_folder, error)) {
    static_cast<void>(entry);  // a folder for each
    gpus.push_back(std::to_string(gpus.size()));
  }
  return gpus;
}

GpuShares::GpuShares(const std::vector<std::string>& gpus) {
  for (const std::string& gpu : gpus) gpus_.push_back({.name = gpu});
}

std::vector<std::string> GpuShares::Take(const std::string& owner, std::size_t count) {
  const auto held = shares_.find(owner);
  if (held != shares_.end()) return held->second;
  std::vector<Gpu*> by_owners;
  for (Gpu& gpu : gpus_) by_owners.push_back(&gpu);
  std::ranges::stable_sort(by_owners, {}, &Gpu::owners);
  by_owners.resize(std::min(count, by_owners.size()));
  std::vector<std::string> names;
  for (Gpu* gpu : by_owners) {
    ++gpu->owners;
    names.push_back(gpu->name);
  }
  return shares_[owner] = names;
}

void GpuShares::GiveBack(const std::string& owner) {
  const auto held = shares_.find(owner);
  if (held == shares_.end()) return;
  for (Gpu& gpu : gpus_) {
    if (std::ranges::find(held->second, gpu.name) != held->second.end()) --gpu.owners;
  }
  shares_.erase(held);
}

}  // namespace lockstep::local
