#include "trainer/observe/listen_address.h"

#include <civetweb.h>
#include <fmt/format.h>

#include "api/base/log.h"

namespace lockstep::train {

std::string MetricsListenAddress(const std::string& address) {
  if (!address.starts_with('[') || mg_check_feature(MG_FEATURES_IPV6) != 0) return address;
  const std::string instead = fmt::format("0.0.0.0:{}", address.substr(address.rfind(':') + 1));
  LogWarning("metrics are not served over IPv6: this build of civetweb has none",
             {{"address", address}, {"instead", instead}});
  return instead;
}

}  // namespace lockstep::train
