#include "operator/server/cluster_domain.h"

#include <sstream>

namespace lockstep::server {

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
      const bool is_services = domain.empty() && word.starts_with(kServices);
      if (is_services) domain = word.substr(kServices.size());
    }
  }
  if (domain.ends_with('.')) domain.pop_back();
  return domain;
}

}  // namespace lockstep::server
