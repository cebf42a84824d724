// The suite that MemoryClient passes, against the real thing.
#include "tests/integration/api_server.h"
#include "tests/operator/local/client_conformance.h"

namespace lockstep::local {
namespace {

ClientUnderTest RestClientUnderTest() {
  ClientUnderTest under_test;
  under_test.name = "rest";
  under_test.make = []() -> std::unique_ptr<kube::Client> {
    auto client = testing::ApiServer::Get().Connect();
    testing::InstallWidgets(*client);
    return client;
  };
  under_test.make_namespace = testing::NewNamespace;
  under_test.collects_garbage = false;
  return under_test;
}

INSTANTIATE_TEST_SUITE_P(RestClient, ClientConformanceTest,
                         ::testing::Values(RestClientUnderTest()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lockstep::local
