// An API server that gives every request the same answer, and a kubeconfig that leads to it.
#pragma once

#include <fmt/format.h>

#include <string>

#include "tests/support/fake_http_server.h"
#include "tests/support/temp_directory.h"

namespace lockstep::cli::testing {

class FakeCluster {
 public:
  FakeCluster(int status, const std::string& body)
      : server_([status, body](const lockstep::testing::FakeHttpServer::Request&,
                               lockstep::testing::FakeHttpServer::Connection& connection) {
          connection.Respond(status, body);
        }) {
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
