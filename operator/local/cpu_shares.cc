#include "operator/local/cpu_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::local {
namespace {

constexpr std::int64_t kWholeCore = 1000;

std::int64_t RoundedUp(std::int64_t amount, std::int64_t parts) {
  return (std::max<std::int64_t>(amount, 1) + parts - 1) / parts;
}

bool Contains(const std::vector<int>& cpus, int cpu) {
  return std::ranges::find(cpus, cpu) != cpus.end();
}

}  // namespace

CpuShares::CpuShares(const std::vector<int>& cpus, int expected_pods, MachineUse* use)
    : even_share_(std::max<std::size_t>(
          1, cpus.size() / static_cast<std::size_t>(std::max(1, expected_pods)))),
      use_(use) {
  for (const int cpu : cpus) cores_.push_back({.cpu = cpu, .resource = fmt::format("cpu-{}", cpu)});
}

std::size_t CpuShares::CountOf(std::optional<std::int64_t> limit_milli) const {
  const std::size_t count =
      limit_milli ? static_cast<std::size_t>(RoundedUp(*limit_milli, kWholeCore)) : even_share_;
  return std::min(count, cores_.size());
}

std::vector<int> CpuShares::Take(const std::string& owner,
                                 std::optional<std::int64_t> limit_milli) {
  if (const auto it = shares_.find(owner); it != shares_.end()) return it->second.cpus;
  const std::size_t count = CountOf(limit_milli);
  if (count == 0) return {};
  Share share;
  share.load_per_core =
      limit_milli ? RoundedUp(*limit_milli, static_cast<std::int64_t>(count)) : kWholeCore;
  std::vector<Core*> cores;
  for (Core& core : cores_) cores.push_back(&core);
  for (Core* core : TakeLeastUsed(cores, count, &Core::load, use_)) {
    core->load += share.load_per_core;
    share.cpus.push_back(core->cpu);
  }
  std::ranges::sort(share.cpus);
  return shares_.emplace(owner, std::move(share)).first->second.cpus;
}

std::vector<int> CpuShares::Before(std::vector<int> theirs,
                                   std::optional<std::int64_t> limit_milli) const {
  const std::size_t count = CountOf(limit_milli);
  std::vector<const Core*> others;
  for (const Core& core : cores_) {
    if (!Contains(theirs, core.cpu)) others.push_back(&core);
  }
  for (const auto& [core, other_runs] : ByUse(others, &Core::load, use_)) {
    if (theirs.size() < count) theirs.push_back(core->cpu);
  }
  theirs.resize(count);
  std::ranges::sort(theirs);
  return theirs;
}

std::vector<int> CpuShares::All() const {
  std::vector<int> cpus;
  for (const Core& core : cores_) cpus.push_back(core.cpu);
  return cpus;
}

void CpuShares::GiveBack(const std::string& owner) {
  const auto it = shares_.find(owner);
  if (it == shares_.end()) return;
  for (Core& core : cores_) {
    if (!Contains(it->second.cpus, core.cpu)) continue;
    core.load -= it->second.load_per_core;
    if (core.load == 0 && use_ != nullptr) use_->Release(core.resource);
  }
  shares_.erase(it);
}

}  // namespace lockstep::local
