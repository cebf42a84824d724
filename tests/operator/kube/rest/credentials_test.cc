#include "operator/kube/rest/credentials.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rfc3339.h"
#include "operator/kube/object.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_directory.h"

namespace lockstep::kube {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kVersion[] = "client.authentication.k8s.io/v1";

TEST(CredentialsTest, ATokenFileIsReadAgainOnceAMinute) {
  const TempDirectory directory;
  testing::FakeClock clock;
  WriteTextFile(directory.At("token"), "one\n");
  RestConfig config;
  config.token_file = directory.At("token");
  Credentials credentials(config, clock);
  EXPECT_EQ(*credentials.BearerToken(), "one");
  WriteTextFile(directory.At("token"), "two");
  clock.Advance(seconds(59));
  EXPECT_EQ(*credentials.BearerToken(), "one");
  clock.Advance(seconds(1));
  EXPECT_EQ(*credentials.BearerToken(), "two");
}

TEST(CredentialsTest, ARefusedTokenIsReadAgainAtOnceButOnlyOnce) {
  const TempDirectory directory;
  testing::FakeClock clock;
  WriteTextFile(directory.At("token"), "one");
  RestConfig config;
  config.token_file = directory.At("token");
  Credentials credentials(config, clock);
  EXPECT_EQ(*credentials.BearerToken(), "one");
  WriteTextFile(directory.At("token"), "two");
  EXPECT_TRUE(credentials.Renew("one", 0));
  EXPECT_EQ(*credentials.BearerToken(), "two");
  WriteTextFile(directory.At("token"), "three");
  EXPECT_TRUE(credentials.Renew("one", 0));  // another caller's late refusal
  EXPECT_EQ(*credentials.BearerToken(), "two");
}

TEST(CredentialsTest, TheLastTokenIsKeptWhileTheFileCannotBeRead) {
  const TempDirectory directory;
  testing::FakeClock clock;
  RestConfig config;
  config.token_file = directory.At("token");
  Credentials credentials(config, clock);
  EXPECT_TRUE(absl::IsNotFound(credentials.BearerToken().status()));
  WriteTextFile(directory.At("token"), "one");
  EXPECT_EQ(*credentials.BearerToken(), "one");
  std::filesystem::remove(directory.At("token"));
  clock.Advance(minutes(2));
  EXPECT_EQ(*credentials.BearerToken(), "one");
}

TEST(CredentialsTest, AFixedTokenCannotBeRenewed) {
  testing::FakeClock clock;
  RestConfig config;
  config.token = "fixed";
  Credentials credentials(config, clock);
  EXPECT_EQ(*credentials.BearerToken(), "fixed");
  EXPECT_FALSE(credentials.Renew("fixed", 0));
}

TEST(CredentialsTest, AnEmptyAuthorityIsNotTheSystems) {
  const TempDirectory directory;
  WriteTextFile(directory.At("ca"), "\n");
  RestConfig config;
  config.ca_file = directory.At("ca");
  const SystemClock clock;
  Credentials credentials(config, clock);
  const absl::Status status = credentials.Tls().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(directory.At("ca")));
}

TEST(CredentialsTest, CertificateFilesAreReadForEachConnection) {
  const TempDirectory directory;
  testing::FakeClock clock;
  WriteTextFile(directory.At("ca"), "CA1");
  RestConfig config;
  config.ca_file = directory.At("ca");
  config.client_certificate_pem = "CERT";
  config.client_key_pem = "KEY";
  Credentials credentials(config, clock);
  EXPECT_EQ(credentials.Tls()->ca, "CA1");
  WriteTextFile(directory.At("ca"), "CA2");
  EXPECT_EQ(credentials.Tls()->ca, "CA2");
  EXPECT_EQ(credentials.Tls()->certificate, "CERT");
}

TEST(CredentialsTest, ACertificateFileThatWasReplacedIsFoundWhenItIsRefused) {
  const TempDirectory directory;
  testing::FakeClock clock;
  WriteTextFile(directory.At("certificate"), "OLD");
  WriteTextFile(directory.At("key"), "KEY");
  RestConfig config;
  config.client_certificate_file = directory.At("certificate");
  config.client_key_file = directory.At("key");
  Credentials credentials(config, clock);
  EXPECT_EQ(credentials.Tls()->certificate, "OLD");
  EXPECT_EQ(credentials.CertificateNumber(), 0U);
  EXPECT_FALSE(credentials.Renew("", 0)) << "it is still the same";
  WriteTextFile(directory.At("certificate"), "NEW");
  EXPECT_EQ(credentials.Tls()->certificate, "NEW") << "of one more connection";
  EXPECT_TRUE(credentials.Renew("", 0)) << "the first connection has the old one";
  EXPECT_EQ(credentials.CertificateNumber(), 1U);
  EXPECT_TRUE(credentials.Renew("", 0)) << "another request over that connection";
  EXPECT_EQ(credentials.CertificateNumber(), 1U);
  EXPECT_FALSE(credentials.Renew("", 1));
  std::filesystem::remove(directory.At("certificate"));
  EXPECT_FALSE(credentials.Renew("", 1));
}

// A plugin that counts its runs in a file and prints a credential that expires at `expires`.
class ExecTest : public ::testing::Test {
 protected:
  RestConfig Config(const std::string& status) {
    WriteTextFile(directory_.At("plugin"),
                  "#!/bin/sh\necho x >>" + directory_.At("runs") +
                      "\nprintf %s \"$KUBERNETES_EXEC_INFO\" >" + directory_.At("info") +
                      "\ncat <<END\n{\"apiVersion\":\"" + kVersion +
                      "\",\"kind\":\"ExecCredential\",\"status\":" + status + "}\nEND\n");
    RestConfig config;
    config.server = "https://s:1";
    config.exec = ExecCredentialSource{};
    config.exec->api_version = kVersion;
    config.exec->command = "sh";
    config.exec->args = {directory_.At("plugin")};
    return config;
  }
  // In a status: the plugin's shell puts the number of the run there.
  std::string NumberOfRun() const { return "$(wc -l <" + directory_.At("runs") + ")"; }
  std::size_t Runs() const { return ReadTextFile(directory_.At("runs")).size() / 2; }

  TempDirectory directory_;
  testing::FakeClock clock_;
};

TEST_F(ExecTest, ACredentialMayNeverExpire) {
  Credentials credentials(Config(R"({"token":"t","expirationTimestamp":"9999-12-31T23:59:59Z"})"),
                          clock_);
  for (int year = 0; year < 2; ++year) {
    const auto token = credentials.BearerToken();
    ASSERT_TRUE(token.ok()) << token.status();
    EXPECT_EQ(*token, "t");
    clock_.Advance(std::chrono::years(1));
  }
  EXPECT_EQ(Runs(), 1U);
}

TEST_F(ExecTest, ACredentialIsKeptUntilItExpires) {
  const std::string end = FormatRfc3339(clock_.Now() + minutes(10));
  Credentials credentials(Config(R"({"token":"t","expirationTimestamp":")" + end + "\"}"), clock_);
  EXPECT_EQ(*credentials.BearerToken(), "t");
  clock_.Advance(minutes(9));
  EXPECT_EQ(*credentials.BearerToken(), "t");
  EXPECT_EQ(Runs(), 1U);
  clock_.Advance(minutes(1));
  EXPECT_EQ(*credentials.BearerToken(), "t");
  EXPECT_EQ(Runs(), 2U);
  EXPECT_TRUE(credentials.Renew("t", 0));
  EXPECT_EQ(*credentials.BearerToken(), "t");
  EXPECT_EQ(Runs(), 3U);
}

TEST_F(ExecTest, ItMayReturnACertificateAndGetsTheCluster) {
  RestConfig config = Config(R"({"clientCertificateData":"CERT","clientKeyData":"KEY"})");
  config.exec->provide_cluster_info = true;
  config.ca_pem = "CA";
  Credentials credentials(config, clock_);
  const auto tls = credentials.Tls();
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(tls->certificate, "CERT");
  EXPECT_EQ(tls->key, "KEY");
  EXPECT_EQ(*credentials.BearerToken(), "");
  const Object info = Object::parse(ReadTextFile(directory_.At("info")));
  EXPECT_EQ(info["apiVersion"], kVersion);
  EXPECT_EQ(info["spec"]["cluster"]["server"], "https://s:1");
  EXPECT_EQ(info["spec"]["cluster"]["certificate-authority-data"], "Q0E=");
}

TEST_F(ExecTest, ACertificateIsRenewedWithItsCredential) {
  for (const char* fixed : {"", "fixed"}) {
    std::filesystem::remove(directory_.At("runs"));
    RestConfig config = Config(fmt::format(
        R"({{"clientCertificateData":"CERT{}","clientKeyData":"KEY"}})", NumberOfRun()));
    config.token = fixed;
    Credentials credentials(config, clock_);
    EXPECT_EQ(*credentials.BearerToken(), fixed);
    EXPECT_EQ(credentials.Tls()->certificate, "CERT1");
    EXPECT_EQ(credentials.CertificateNumber(), 0U);
    EXPECT_TRUE(credentials.Renew(fixed, 0));
    EXPECT_EQ(*credentials.BearerToken(), fixed);
    EXPECT_EQ(credentials.CertificateNumber(), 1U) << "before the request is repeated";
    EXPECT_EQ(credentials.Tls()->certificate, "CERT2");
    EXPECT_TRUE(credentials.Renew(fixed, 0)) << "another caller's late refusal";
    EXPECT_EQ(*credentials.BearerToken(), fixed);
    EXPECT_EQ(Runs(), 2U);
  }
}

TEST_F(ExecTest, ACertificateThatExpiresIsReplacedBeforeItIsRefused) {
  Credentials credentials(
      Config(fmt::format(
          R"({{"clientCertificateData":"CERT{}","clientKeyData":"K","expirationTimestamp":"{}"}})",
          NumberOfRun(), FormatRfc3339(clock_.Now() + minutes(10)))),
      clock_);
  EXPECT_EQ(credentials.Tls()->certificate, "CERT1");
  clock_.Advance(minutes(10));
  EXPECT_EQ(*credentials.BearerToken(), "");
  EXPECT_EQ(credentials.CertificateNumber(), 1U);
}

TEST_F(ExecTest, ARenewedTokenNeedsNoNewConnection) {
  Credentials credentials(Config(fmt::format(R"({{"token":"t{}"}})", NumberOfRun())), clock_);
  EXPECT_EQ(*credentials.BearerToken(), "t1");
  EXPECT_TRUE(credentials.Renew("t1", 0));
  EXPECT_EQ(*credentials.BearerToken(), "t2");
  EXPECT_EQ(credentials.CertificateNumber(), 0U);
}

TEST_F(ExecTest, AMissingPluginGivesItsInstallHint) {
  RestConfig config = Config("{}");
  config.exec->command = "no-such-login-program";
  config.exec->install_hint = "get it from the shelf";
  Credentials credentials(config, clock_);
  const absl::Status status = credentials.BearerToken().status();
  EXPECT_TRUE(absl::IsUnauthenticated(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("no-such-login-program"));
  EXPECT_THAT(status.ToString(), HasSubstr("get it from the shelf"));
}

TEST_F(ExecTest, APluginThatGivesNothingIsNamed) {
  Credentials credentials(Config("{}"), clock_);
  EXPECT_THAT(credentials.BearerToken().status().ToString(),
              HasSubstr("credential plugin sh: it printed neither a token nor"));
}

TEST(ParseExecCredentialTest, WhatIsNoCredentialIsRefused) {
  const auto error = [](const std::string& text) {
    return ParseExecCredential(text, kVersion).status().ToString();
  };
  const std::string head = std::string(R"({"kind":"ExecCredential","apiVersion":")") + kVersion;
  EXPECT_THAT(error("hello"), HasSubstr("no JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("no ExecCredential"));
  EXPECT_THAT(error(R"({"kind":"ExecCredential","apiVersion":"v9"})"), HasSubstr("\"v9\""));
  EXPECT_THAT(error(head + "\"}"), HasSubstr("no status"));
  EXPECT_THAT(error(head + R"(","status":{"clientKeyData":"x"}})"), HasSubstr("only one of"));
  EXPECT_THAT(error(head + R"(","status":{"token":"t","expirationTimestamp":"soon"}})"),
              HasSubstr("found \"soon\", expected RFC 3339"));
}

}  // namespace
}  // namespace lockstep::kube
