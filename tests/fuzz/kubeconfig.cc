// Kubeconfigs: read and chosen from without harm; what is usable has a server.
#include "operator/kube/rest/rest_config.h"
#include "tests/fuzz/fuzz.h"

using lockstep::fuzz::Require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = lockstep::fuzz::Text(data, size);
  for (const char* context : {"", "a"}) {
    const auto config = lockstep::kube::ParseKubeconfig(text, "/folder", context);
    if (config.ok()) {
      Require(!config->server.empty(), "a usable config names a server");
    } else {
      Require(!config.status().message().empty(), "a refusal says why");
    }
  }
  return 0;
}
