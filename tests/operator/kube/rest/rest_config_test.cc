#include "operator/kube/rest/rest_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "tests/support/scoped_env.h"
#include "tests/support/temp_directory.h"

namespace lockstep::kube {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kTwoContexts[] = R"(
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c1
  cluster:
    server: https://one:6443
    certificate-authority-data: Q0E=
    tls-server-name: kubernetes
- name: c2
  cluster: {server: "https://two:6443", certificate-authority: pki/ca.crt}
users:
- name: u1
  user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}
- name: u2
  user: {tokenFile: /run/token}
contexts:
- name: one
  context: {cluster: c1, user: u1}
- name: two
  context: {cluster: c2, user: u2, namespace: team}
)";

TEST(KubeconfigTest, TheCurrentContextIsTaken) {
  const auto config = ParseKubeconfig(kTwoContexts, "/etc/kube");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://one:6443");
  EXPECT_EQ(config->ca_pem, "CA");
  EXPECT_EQ(config->tls_server_name, "kubernetes");
  EXPECT_EQ(config->client_certificate_pem, "CERT");
  EXPECT_EQ(config->client_key_pem, "KEY");
  EXPECT_EQ(config->namespace_name, "default");
  EXPECT_TRUE(config->token_file.empty());
}

TEST(KubeconfigTest, AnotherContextCanBeAskedFor) {
  const auto config = ParseKubeconfig(kTwoContexts, "/etc/kube", "two");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://two:6443");
  EXPECT_EQ(config->ca_file, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(config->token_file, "/run/token");
  EXPECT_EQ(config->namespace_name, "team");
  EXPECT_EQ(config->pod_namespace, "") << "this process need not be there";
}

TEST(KubeconfigTest, AnExecPluginIsReadWhole) {
  const auto config = ParseKubeconfig(R"(
current-context: c
clusters: [{name: c, cluster: {server: "https://s"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users:
- name: u
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ./bin/login
      args: [get, token]
      env: [{name: REGION, value: north}]
      installHint: get it from the shelf
      provideClusterInfo: true
      interactiveMode: Never
)",
                                      "/etc/kube");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_TRUE(config->exec.has_value());
  EXPECT_EQ(config->exec->command, "/etc/kube/bin/login");
  EXPECT_THAT(config->exec->args, ElementsAre("get", "token"));
  EXPECT_EQ(config->exec->env.at("REGION"), "north");
  EXPECT_EQ(config->exec->install_hint, "get it from the shelf");
  EXPECT_TRUE(config->exec->provide_cluster_info);
}

TEST(KubeconfigTest, ErrorsNameTheEntry) {
  const auto error = [](const std::string& text, const std::string& context = "") {
    return ParseKubeconfig(text, "/", context).status().ToString();
  };
  EXPECT_THAT(error("{"), HasSubstr("kubeconfig:1"));
  EXPECT_THAT(error("[]"), HasSubstr("expected one Config"));
  EXPECT_THAT(error(""), HasSubstr("no current-context"));
  EXPECT_THAT(error(kTwoContexts, "three"), HasSubstr("no context \"three\""));
  // NotFound means that there is no kubeconfig, and a pod may use its service account.
  EXPECT_THAT(error(kTwoContexts, "three"), HasSubstr("INVALID_ARGUMENT"));
  EXPECT_THAT(error("clusters: 7"), HasSubstr("clusters: expected a list"));
  EXPECT_THAT(error("current-context: a\ncontexts: [{name: a, context: {cluster: b}}]"),
              HasSubstr("names cluster \"b\", which does not exist"));
  const std::string with_user =
      "current-context: a\nclusters: [{name: c, cluster: {server: 'https://s'}}]\n"
      "contexts: [{name: a, context: {cluster: c, user: u}}]\n";
  EXPECT_THAT(error(with_user), HasSubstr("names user \"u\", which does not exist"));
  EXPECT_THAT(error(with_user + "users: [{name: u, user: {username: x, password: y}}]"),
              HasSubstr("user \"u\": username: the API server takes no passwords"));
  EXPECT_THAT(error(with_user + "users: [{name: u, user: {client-key-data: '*'}}]"),
              HasSubstr("user \"u\": client-key-data: expected base64"));
  EXPECT_THAT(error(with_user + "users: [{name: u, user: {exec: {command: x}}}]"),
              HasSubstr("user \"u\": exec: apiVersion: found \"\""));
}

TEST(KubeconfigTest, AnEntryThatCannotBeUsedHurtsOnlyWhoChoosesIt) {
  const std::string text = R"(
current-context: good
clusters: [{name: c, cluster: {server: "https://s"}}]
users: [{name: odd, user: {username: x}}, {name: u, user: {token: t}}]
contexts:
- {name: good, context: {cluster: c, user: u}}
- {name: bad, context: {cluster: c, user: odd}}
)";
  EXPECT_TRUE(ParseKubeconfig(text, "/").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ParseKubeconfig(text, "/", "bad").status()));
}

TEST(KubeconfigTest, SeveralFilesAreMergedAndTheFirstToSpeakWins) {
  const TempDirectory directory;
  WriteTextFile(directory.At("a"), R"(
current-context: mine
contexts: [{name: mine, context: {cluster: c, user: u}}]
users: [{name: u, user: {tokenFile: token-a}}]
)");
  WriteTextFile(directory.At("b"), R"(
current-context: other
clusters: [{name: c, cluster: {server: "https://from-b"}}]
users: [{name: u, user: {token: from-b}}]
)");
  const ScopedEnv env("KUBECONFIG",
                      directory.At("missing") + ":" + directory.At("a") + ":" + directory.At("b"));
  const auto config = LoadKubeconfig("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://from-b");
  EXPECT_EQ(config->token, "");
  EXPECT_EQ(config->token_file, directory.At("token-a"));
}

TEST(KubeconfigTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(LoadKubeconfig("/no/such/file").status().ToString(), HasSubstr("/no/such/file"));
  const ScopedEnv env("KUBECONFIG", "/no/a:/no/b");
  const absl::Status status = LoadKubeconfig("").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.ToString(), HasSubstr("/no/a, /no/b"));
}

class InClusterConfigTest : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteTextFile(directory_.At("token"), "t\n");
    WriteTextFile(directory_.At("ca.crt"), "ca");
    WriteTextFile(directory_.At("namespace"), "operators");
  }
  TempDirectory directory_;
};

TEST_F(InClusterConfigTest, ReadsTheServiceAccount) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
      port("KUBERNETES_SERVICE_PORT", "443");
  const auto config = InClusterConfig(directory_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://10.0.0.1:443");
  EXPECT_EQ(config->token_file, directory_.At("token"));
  EXPECT_EQ(config->ca_file, directory_.At("ca.crt"));
  EXPECT_EQ(config->namespace_name, "operators");
  EXPECT_EQ(config->pod_namespace, "operators");
}

TEST_F(InClusterConfigTest, AnIpv6ServiceIsCalledByItsName) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "fd00::1"),
      port("KUBERNETES_SERVICE_PORT", "443");
  const auto config = InClusterConfig(directory_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->server, "https://kubernetes.default.svc:443");
}

TEST_F(InClusterConfigTest, OutsideAPodNothingIsFound) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", ""), port("KUBERNETES_SERVICE_PORT", "");
  EXPECT_TRUE(absl::IsNotFound(InClusterConfig(directory_.path()).status()));
}

// NotFound would mean that there is no pod.
TEST_F(InClusterConfigTest, APodWithoutATokenOrAnAuthorityGetsAnErrorThatSaysSo) {
  const ScopedEnv host("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
      port("KUBERNETES_SERVICE_PORT", "443");
  for (const auto& [file, what] :
       {std::pair("token", "account's token"), {"ca.crt", "account's authority"}}) {
    std::filesystem::remove(directory_.At(file));
    const absl::Status status = InClusterConfig(directory_.path()).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.ToString(), AllOf(HasSubstr(directory_.At(file)), HasSubstr(what),
                                         HasSubstr("automountServiceAccountToken")));
    WriteTextFile(directory_.At(file), "there again");
  }
}

}  // namespace
}  // namespace lockstep::kube
