#include "trainer/rendezvous/service_name.h"

#include <sstream>

#include "base/read_file.h"

namespace lockstep::train {
namespace {

constexpr std::string_view kService = "svc.";

// Uses the last search line, which replaces earlier ones (resolv.conf(5)).
std::string ClusterDomain(std::string_view resolv_conf) {
  std::string found;
  std::istringstream text{std::string(resolv_conf)};
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "search") continue;
    found.clear();
    while (words >> word) {
      if (found.empty() && word.starts_with(kService)) found = word.substr(kService.size());
    }
  }
  while (found.ends_with('.')) found.pop_back();
  return found;
}

}  // namespace

std::string AbsoluteServiceName(const std::string& host, std::string_view resolv_conf) {
  if (!host.ends_with(".svc")) return host;
  const std::string domain = ClusterDomain(resolv_conf);
  return domain.empty() ? host : host + '.' + domain + '.';
}

std::string AbsoluteServiceName(const std::string& host) {
  return AbsoluteServiceName(
      host, ReadFile("/etc/resolv.conf", "the resolver's configuration").value_or(""));
}

}  // namespace lockstep::train
