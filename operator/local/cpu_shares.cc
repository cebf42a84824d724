#include "operator/local/cpu_shares.h"

#include <algorithm>

namespace lockstep::local {

CpuShares::CpuShares(const std::vector<int>& cpus, int expected_pods)
    : even_share_(std::max<std::size_t>(
          1, cpus.size() / static_cast<std::size_t>(std::max(1, expected_pods)))) {
  for (const int cpu : cpus) cores_.push_back({cpu, 0});
}

std::vector<int> CpuShares::Take(const std::string& owner,
                                 std::optional<std::int64_t> limit_milli) {
  if (const auto it = shares_.find(owner); it != shares_.end()) return it->second.cpus;
  std::size_t count = even_share_;
  if (limit_milli)
    count = static_cast<std::size_t>(std::max<std::int64_t>(*limit_milli, 1) + 999) / 1000;
  count = std::min(count, cores_.size());
  if (count == 0) return {};

  std::vector<Core*> by_load;
  for (Core& core : cores_) by_load.push_back(&core);
  std::stable_sort(by_load.begin(), by_load.end(),
                   [](const Core* a, const Core* b) { return a->load < b->load; });
  Share share;
  const double load =
      limit_milli ? static_cast<double>(*limit_milli) : 1000.0 * static_cast<double>(count);
  share.load_per_core = load / static_cast<double>(count);
  for (std::size_t i = 0; i < count; ++i) {
    by_load[i]->load += share.load_per_core;
    share.cpus.push_back(by_load[i]->cpu);
  }
  std::sort(share.cpus.begin(), share.cpus.end());
  return shares_.emplace(owner, std::move(share)).first->second.cpus;
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
    const std::vector<int>& cpus = it->second.cpus;
    if (std::find(cpus.begin(), cpus.end(), core.cpu) != cpus.end()) {
      core.load -= it->second.load_per_core;
    }
  }
  shares_.erase(it);
}

}  // namespace lockstep::local
