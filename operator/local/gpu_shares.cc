#include "operator/local/gpu_shares.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/descriptor.h"
#include "base/folder_entries.h"

namespace lockstep::local {

namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Permissions alone do not tell: a container's rules for devices refuse an open.
bool CanBeOpened(const std::filesystem::path& device) {
  return Descriptor(::open(device.c_str(), O_RDWR | O_CLOEXEC)).fd() >= 0;
}

std::size_t CountGpus(const GpuFiles& files) {
  constexpr std::string_view kPrefix = "nvidia";  // also of nvidiactl, nvidia-uvm, …
  std::size_t devices = 0, usable = 0;
  std::error_code error;
  for (const std::filesystem::path& device : PathsIn(files.devices)) {
    const std::string name = device.filename();
    if (!name.starts_with(kPrefix) || !IsNumber(name.substr(kPrefix.size()))) continue;
    ++devices;
    if (CanBeOpened(device)) ++usable;
  }
  if (devices > 0 || !std::filesystem::exists(files.node_maker, error)) return usable;
  return PathsIn(files.driver).size();
}

}  // namespace

std::vector<std::string> PermittedGpus(const char* visible, const GpuFiles& files) {
  std::vector<std::string> gpus;
  if (visible != nullptr) {
    std::istringstream names(visible);
    for (std::string name; std::getline(names, name, ',');) {
      // As CUDA does, ignores the first name that is not a GPU and every name after it.
      if (!IsNumber(name) && !name.starts_with("GPU-") && !name.starts_with("MIG-")) break;
      gpus.push_back(name);
    }
    return gpus;
  }
  const std::size_t count = CountGpus(files);
  while (gpus.size() < count) gpus.push_back(std::to_string(gpus.size()));
  return gpus;
}

GpuShares::GpuShares(const std::vector<std::string>& gpus, MachineUse* use) : use_(use) {
  for (const std::string& gpu : gpus) gpus_.push_back({.name = gpu, .resource = "gpu-" + gpu});
}

std::vector<std::string> GpuShares::TakeOf(const std::vector<Gpu*>& gpus, const std::string& owner,
                                           std::size_t count) {
  const auto held = shares_.find(owner);
  if (held != shares_.end()) return held->second;
  std::vector<std::string> names;
  for (Gpu* gpu : TakeLeastUsed(gpus, count, &Gpu::owners, use_)) {
    ++gpu->owners;
    names.push_back(gpu->name);
  }
  return shares_[owner] = names;
}

std::vector<std::string> GpuShares::Take(const std::string& owner, std::size_t count) {
  std::vector<Gpu*> all;
  for (Gpu& gpu : gpus_) all.push_back(&gpu);
  return TakeOf(all, owner, count);
}

std::vector<std::string> GpuShares::Before(std::vector<std::string> theirs,
                                           const std::string& owner, std::size_t count) {
  std::vector<Gpu*> others;
  for (Gpu& gpu : gpus_) {
    if (std::ranges::find(theirs, gpu.name) == theirs.end()) others.push_back(&gpu);
  }
  if (theirs.size() < count) {
    for (std::string& gpu : TakeOf(others, owner, count - theirs.size())) {
      theirs.push_back(std::move(gpu));
    }
  }
  theirs.resize(std::min(count, theirs.size()));
  return theirs;
}

void GpuShares::GiveBack(const std::string& owner) {
  const auto held = shares_.find(owner);
  if (held == shares_.end()) return;
  for (Gpu& gpu : gpus_) {
    if (std::ranges::find(held->second, gpu.name) == held->second.end()) continue;
    if (--gpu.owners == 0 && use_ != nullptr) use_->Release(gpu.resource);
  }
  shares_.erase(held);
}

}  // namespace lockstep::local
