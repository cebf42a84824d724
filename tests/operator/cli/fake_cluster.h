// An API server that answers by a test's function, or each request alike, and a kubeconfig that
// leads to it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "tests/support/fake_http_server.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli::testing {

class FakeCluster {
 public:
  FakeCluster(int status, const std::string& body)
      : FakeCluster([status, body](const lockstep::testing::FakeHttpServer::Request&,
                                   lockstep::testing::FakeHttpServer::Connection& connection) {
          connection.Respond(status, body);
        }) {}
  explicit FakeCluster(lockstep::testing::FakeHttpServer::Handler handler)
      : server_(std::move(handler)) {
    WriteTextFile(kubeconfig(), fmt::format(R"(
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{}"}}}}]
users: [{{name: c, user: {{}}}}]
contexts: [{{name: c, context: {{cluster: c, user: c, namespace: n}}}}]
)",
                                            server_.url()));
  }

  std::string kubeconfig() const { return folder_.At("kubeconfig"); }

 private:
  TempDirectory folder_;
  lockstep::testing::FakeHttpServer server_;
};

}  // namespace lockstep::cli::testing
