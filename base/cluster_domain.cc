#include "base/cluster_domain.h"

#include <sstream>

namespace lockstep {

std::string ClusterDomainIn(std::string_view resolv_conf) {
  constexpr std::string_view kServices = "svc.";
  std::istringstream lines{std::string(resolv_conf)};
  std::string domain;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "search") continue;
    domain.clear();  // as for the resolver, the last list counts
    while (words >> word) {
      if (domain.empty() && word.starts_with(kServices)) domain = word.substr(kServices.size());
    }
  }
  while (domain.ends_with('.')) domain.pop_back();
  return domain;
}

}  // namespace lockstep
