#include "operator/server/cluster_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scoped_env.h"
#include "tests/support/temp_directory.h"

namespace lockstep::server {
namespace {

using ::testing::HasSubstr;

class FindClusterTest : public ::testing::Test {
 protected:
  FindClusterTest() {
    WriteTextFile(directory_.At("kubeconfig"), R"(
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: one, cluster: {server: "https://of-the-kubeconfig:6443"}}]
contexts: [{name: one, context: {cluster: one}}]
)");
  }
  const TempDirectory directory_;
  const ScopedEnv kubeconfig_{"KUBECONFIG", directory_.At("kubeconfig")};
};

TEST_F(FindClusterTest, OutsideAPodItIsTheKubeconfigsCluster) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", ""), port("KUBERNETES_SERVICE_PORT", "");
  const auto found = FindCluster({}, directory_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->server, "https://of-the-kubeconfig:6443");
}

TEST_F(FindClusterTest, InAPodItIsThePodsOwnCluster) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
      port("KUBERNETES_SERVICE_PORT", "443");
  WriteTextFile(directory_.At("token"), "t");
  WriteTextFile(directory_.At("ca.crt"), "ca");
  const auto found = FindCluster({}, directory_.path());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->server, "https://10.0.0.1:443");
}

TEST_F(FindClusterTest, TheErrorOfAPodWithoutATokenNamesTheToken) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
      port("KUBERNETES_SERVICE_PORT", "443");
  const auto found = FindCluster({}, directory_.path());
  EXPECT_THAT(found.status().ToString(), HasSubstr(directory_.At("token") + ": the service"));
}

}  // namespace
}  // namespace lockstep::server
