#include "trainer/core/cpu_quota.h"

#include <cstdlib>
#include <fstream>

namespace lockstep::train {
namespace {

std::optional<double> Cores(double quota, double period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

}  // namespace

std::optional<double> CpuQuota(const std::string& root) {
  // "max 100000" means no limit; atof parses "max" as 0.
  std::string quota;
  double period = 0;
  if (std::ifstream file(root + "/cpu.max"); file >> quota >> period) {
    return Cores(std::atof(quota.c_str()), period);
  }
  double quota_us = 0, period_us = 0;  // -1: no limit
  std::ifstream quota_file(root + "/cpu/cpu.cfs_quota_us");
  std::ifstream period_file(root + "/cpu/cpu.cfs_period_us");
  if (!(quota_file >> quota_us) || !(period_file >> period_us)) return std::nullopt;
  return Cores(quota_us, period_us);
}

}  // namespace lockstep::train
