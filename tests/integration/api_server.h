// One real kube-apiserver and etcd for all tests of this program, and clients of it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "operator/kube/rest/rest_client.h"

namespace lockstep::testing {

// Started at the first call, stopped at the program's end. Throws if it cannot be started.
class ApiServer {
 public:
  static const ApiServer& Get();

  // An administrator, by client certificate.
  const kube::RestConfig& config() const { return config_; }
  // The file of an administrator's bearer token.
  std::string token_file() const { return directory_ + "/token"; }
  int port() const;
  std::unique_ptr<kube::RestClient> Connect(kube::RestClientOptions options = {}) const;

 private:
  friend class ApiServerEnvironment;
  explicit ApiServer(std::string directory);

  const std::string directory_;
  kube::RestConfig config_;
};

std::unique_ptr<kube::RestClient> MustConnect(const kube::RestConfig& config,
                                              kube::RestClientOptions options = {});

// A namespace of its own for a test.
std::string NewNamespace(kube::Client& client);

// Defines a resource of a YAML file, and waits until it is served.
void InstallDefinition(kube::Client& client, const std::string& yaml, const kube::Kind& kind);

// Defines the widgets of the conformance suite.
void InstallWidgets(kube::Client& client);

}  // namespace lockstep::testing
