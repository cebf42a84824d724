#include "trainer/rendezvous/service_name.h"

#include "base/cluster_domain.h"
#include "base/read_file.h"

namespace lockstep::train {

std::string AbsoluteServiceName(const std::string& host, std::string_view resolv_conf) {
  if (!host.ends_with(".svc")) return host;
  const std::string domain = ClusterDomainIn(resolv_conf);
  return domain.empty() ? host : host + '.' + domain + '.';
}

std::string AbsoluteServiceName(const std::string& host) {
  return AbsoluteServiceName(
      host, ReadFile("/etc/resolv.conf", "the resolver's configuration").value_or(""));
}

}  // namespace lockstep::train
