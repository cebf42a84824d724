#include "operator/cli/cluster_commands.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/fake_http_server.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::FakeHttpServer;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An API server that refuses every request, with a message that tries to set the terminal's title.
class ClusterCommandsTest : public ::testing::Test {
 protected:
  ClusterCommandsTest()
      : server_([](const FakeHttpServer::Request&, FakeHttpServer::Connection& connection) {
          connection.Respond(403, R"({"kind": "Status", "code": 403, "reason": "Forbidden",
                                      "message": "not \u001b]0;yours\u0007 to see"})");
        }) {
    kubeconfig_ = ::testing::TempDir() + "cluster_commands_test.kubeconfig";
    std::ofstream(kubeconfig_) << fmt::format(R"(
apiVersion: v1
kind: Config
current-context: c
clusters: [{{name: c, cluster: {{server: "{}"}}}}]
users: [{{name: c, user: {{}}}}]
contexts: [{{name: c, context: {{cluster: c, user: c, namespace: n}}}}]
)",
                                              server_.url());
  }
  ~ClusterCommandsTest() override { std::filesystem::remove(kubeconfig_); }

  template <typename Command>
  std::string StderrOf(const Command& command) {
    ::testing::internal::CaptureStderr();
    EXPECT_NE(command(), 0);
    return ::testing::internal::GetCapturedStderr();
  }

  FakeHttpServer server_;
  std::string kubeconfig_;
};

TEST_F(ClusterCommandsTest, WhatOthersWroteDoesNotCommandTheTerminal) {
  const auto is_harmless =
      AllOf(HasSubstr("?]0;yours? to see"), Not(HasSubstr("\x1b")), Not(HasSubstr("\x07")));
  EXPECT_THAT(
      StderrOf([&] { return RunLogs({.cluster = {.kubeconfig = kubeconfig_}, .job = "j"}); }),
      is_harmless);
  EXPECT_THAT(
      StderrOf([&] {
        return RunStatus({.cluster = {.kubeconfig = kubeconfig_}, .job = "j", .watch = false});
      }),
      is_harmless);
}

}  // namespace
}  // namespace lockstep::cli
