#include "operator/progress/replica_names.h"

#include <algorithm>

#include "api/v1/training_job.h"

namespace lockstep::progress {
namespace {

constexpr std::size_t kMostDigits = 5;  // a role has at most 10,000 replicas

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= kMostDigits &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// True for a role and an index.
bool IsReplica(std::string_view name, char between) {
  const std::size_t end = name.find(between);
  return end != std::string_view::npos && api::RoleFromName(name.substr(0, end)) &&
         IsNumber(name.substr(end + 1));
}

}  // namespace

bool IsProcessName(std::string_view name) {
  constexpr std::string_view kProcess = " process ";
  const std::size_t end = name.find(kProcess);
  if (end == std::string_view::npos) return IsReplica(name, ' ');
  return IsReplica(name.substr(0, end), ' ') && IsNumber(name.substr(end + kProcess.size()));
}

bool IsPodName(std::string_view name) {
  return IsReplica(name, '-');
}

std::vector<std::string> NamesIn(const google::protobuf::RepeatedPtrField<std::string>& said,
                                 bool (*is_name)(std::string_view)) {
  std::vector<std::string> names;
  for (const std::string& name : said) {
    if (names.size() == kMostNames) break;
    if (is_name(name)) names.push_back(name);
  }
  names.shrink_to_fit();
  return names;
}

std::string PodOf(const std::string& process) {
  const std::size_t role = process.find(' ');
  if (role == std::string::npos) return process;
  const std::size_t index = process.find(' ', role + 1);
  return process.substr(0, role) + "-" + process.substr(role + 1, index - role - 1);
}

}  // namespace lockstep::progress
