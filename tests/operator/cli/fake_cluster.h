// An API server that answers by a test's function, or each request alike, and a kubeconfig that
// leads to it; and what it may answer with.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "api/v1/names.h"
#include "operator/kube/object.h"
#include "tests/support/fake_http_server.h"
#include "tests/support/temp_directory.h"

namespace lockstep::testing {

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
contexts: [{{name: c, context: {{cluster: c, user: c, namespace: "n"}}}}]
)",
                                            server_.url()));
  }

  std::string kubeconfig() const { return folder_.At("kubeconfig"); }

 private:
  TempDirectory folder_;
  lockstep::testing::FakeHttpServer server_;
};

// A pod of the job "j" in the namespace "n", with what the container `trainer` says of itself.
inline kube::Object TrainerPod(const std::string& role, int index, kube::Object container) {
  const std::string name = fmt::format("j-{}-{}", role, index);
  container["name"] = "trainer";
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", name},
            {"namespace", "n"},
            {"uid", "uid-of-" + name},
            {"labels",
             {{api::kLabelJobName, "j"},
              {api::kLabelRole, role},
              {api::kLabelReplicaIndex, std::to_string(index)}}},
            {"ownerReferences",
             {{{"apiVersion", "training.lockstep.dev/v1"},
               {"kind", "TrainingJob"},
               {"name", "j"},
               {"uid", "uid-of-j"},
               {"controller", true}}}}}},
          {"spec", {{"containers", {{{"name", "trainer"}}}}}},
          {"status", {{"phase", "Running"}, {"containerStatuses", {std::move(container)}}}}};
}

}  // namespace lockstep::testing
