#include "operator/server/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "api/v1/names.h"
#include "tests/support/folders.h"

namespace lockstep::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

std::optional<int> Parse(std::vector<const char*> args, Flags& flags) {
  args.insert(args.begin(), "lockstep-operator");
  return ParseFlags(static_cast<int>(args.size()), args.data(), flags);
}

std::string ErrorOf(const std::vector<const char*>& args) {
  Flags flags;
  CaptureStderr();
  CaptureStdout();
  EXPECT_EQ(Parse(args, flags), api::kExitUsage);
  GetCapturedStdout();
  return GetCapturedStderr();
}

std::string Help() {
  Flags flags;
  CaptureStdout();
  EXPECT_EQ(Parse({"--help"}, flags), 0);
  return GetCapturedStdout();
}

std::set<std::string> FlagsIn(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    found.insert((*it)[1]);
  }
  return found;
}

const std::regex kFlagInHelp(R"(\n +(?:-h,)?(--[a-z-]+))");

TEST(FlagsTest, KubeflowsFlagsAreTaken) {
  Flags flags;
  EXPECT_EQ(Parse({"--kubeconfig=/tmp/k",
                   "--metrics-bind-address",
                   "0",
                   "--health-probe-bind-address=127.0.0.1:9",
                   "--leader-elect=false",
                   "--leader-election-namespace=a",
                   "--leader-election-name=l",
                   "--namespace=b",
                   "--controller-threads=8",
                   "--kube-api-qps=20.5",
                   "--kube-api-burst=30",
                   "--trainer-image=i:1",
                   "--trainer-gpu-image=g:1",
                   "--watch-nodes",
                   "--poll-progress=false",
                   "--settling-seconds=2.5",
                   "--job-tokens=false",
                   "--token-key-secret=key",
                   "--network-policies=false",
                   "--scraper-namespace=0",
                   "--cluster-domain=k8s.example",
                   "--kubeflow-labels"},
                  flags),
            std::nullopt);
  EXPECT_EQ(flags.kubeconfig, "/tmp/k");
  EXPECT_EQ(flags.metrics_bind_address, "0");
  EXPECT_EQ(flags.health_probe_bind_address, "127.0.0.1:9");
  EXPECT_FALSE(flags.leader_elect);
  EXPECT_EQ(flags.leader_election_namespace, "a");
  EXPECT_EQ(flags.leader_election_name, "l");
  EXPECT_THAT(flags.namespaces, ElementsAre("b"));
  EXPECT_EQ(flags.controller_threads, 8);
  EXPECT_TRUE(flags.watch_nodes);
  EXPECT_FALSE(flags.poll_progress);
  EXPECT_EQ(flags.settling_seconds, 2.5);
  EXPECT_FALSE(flags.job_tokens);
  EXPECT_EQ(flags.token_key_secret, "key");
  EXPECT_FALSE(flags.network_policies);
  EXPECT_EQ(flags.scraper_namespace, "0");
  EXPECT_EQ(flags.cluster_domain, "k8s.example");
  EXPECT_TRUE(flags.kubeflow_labels);
  EXPECT_EQ(flags.kube_api_qps, 20.5);
  EXPECT_EQ(flags.kube_api_burst, 30);
  EXPECT_EQ(flags.trainer_image, "i:1");
  EXPECT_EQ(flags.trainer_gpu_image, "g:1");
}

TEST(FlagsTest, WhereProgramsReportIsGivenAsAnAddressAndAUrlOrNotAtAll) {
  Flags flags;
  EXPECT_EQ(Parse({"--progress-bind-address=:8082", "--progress-url=http://op.ns.svc:8082"}, flags),
            std::nullopt);
  EXPECT_EQ(flags.progress_bind_address, ":8082");
  EXPECT_EQ(flags.progress_url, "http://op.ns.svc:8082");
  EXPECT_EQ(Parse({"--progress-bind-address=:8082", "--progress-url=https://[::1]:8082/x"}, flags),
            std::nullopt);
  EXPECT_THAT(ErrorOf({"--progress-bind-address=:8082"}), HasSubstr("expected both or neither"));
  EXPECT_THAT(ErrorOf({"--progress-url=http://op"}), HasSubstr("expected both or neither"));
  for (const char* url : {"--progress-url=op:8082", "--progress-url=http://op/",
                          "--progress-url=http://op\nX: y", "--progress-url=ftp://op"}) {
    EXPECT_THAT(ErrorOf({"--progress-bind-address=:8082", url}), HasSubstr("expected a URL"))
        << url;
  }
  EXPECT_THAT(
      ErrorOf({"--progress-bind-address=:8082", "--progress-url=http://op", "--job-tokens=false"}),
      HasSubstr("--job-tokens=false"));
}

TEST(FlagsTest, LeaderElectionIsOnUnlessSwitchedOff) {
  for (const auto& args :
       {std::vector<const char*>{}, {"--leader-elect"}, {"--leader-elect=true"}}) {
    Flags flags;
    EXPECT_EQ(Parse(args, flags), std::nullopt);
    EXPECT_TRUE(flags.leader_elect);
  }
}

TEST(FlagsTest, NamespacesAreListedOrRepeatedAndCountOnce) {
  const std::vector<std::vector<const char*>> ways = {
      {"--namespace=b,a"}, {"--namespace", "a,b,a"}, {"--namespace=a", "--namespace=b"}};
  for (const auto& args : ways) {
    Flags flags;
    EXPECT_EQ(Parse(args, flags), std::nullopt);
    EXPECT_THAT(flags.namespaces, ElementsAre("a", "b"));
  }
}

TEST(FlagsTest, NoNamespaceStandsForAll) {
  for (const auto& args : {std::vector<const char*>{}, {"--namespace", ""}}) {
    Flags flags;
    EXPECT_EQ(Parse(args, flags), std::nullopt);
    EXPECT_THAT(flags.namespaces, IsEmpty());
  }
}

TEST(FlagsTest, NamespacesThatCannotBeAreNamed) {
  EXPECT_THAT(ErrorOf({"--namespace=a,Team_B"}),
              AllOf(HasSubstr("--namespace"), HasSubstr("found \"a,Team_B\""), HasSubstr("63")));
  EXPECT_THAT(ErrorOf({"--namespace=a b"}), HasSubstr("found \"a b\""));
  // An unset variable must not make the operator serve all namespaces.
  EXPECT_THAT(ErrorOf({"--namespace=a,"}), HasSubstr("--namespace"));
  EXPECT_THAT(ErrorOf({"--namespace=a", "--namespace", ""}), HasSubstr("--namespace"));
  std::string many = "--namespace=n0";
  for (int i = 1; i <= 100; ++i) many += ",n" + std::to_string(i);
  EXPECT_THAT(ErrorOf({many.c_str()}),
              AllOf(HasSubstr("found 101 namespaces"), HasSubstr("at most 100")));
}

// Else `--leader-elect=` would be true, and `--controller-threads=` take the flag behind it.
TEST(FlagsTest, AFlagWithoutTheValueThatItsEqualsSignAnnouncesIsNamed) {
  const auto flags = FlagsIn(Help(), kFlagInHelp);
  EXPECT_GT(flags.size(), 10u);
  for (const std::string& flag : flags) {
    const std::string empty = flag + "=";
    for (const auto& args : {std::vector{empty.c_str()}, {empty.c_str(), "--kueue"}}) {
      EXPECT_THAT(ErrorOf(args), HasSubstr(flag + ": found \"\", expected a value"));
    }
  }
}

TEST(FlagsTest, JobsAreKeptApartUnlessItIsSwitchedOff) {
  Flags flags;
  EXPECT_EQ(Parse({}, flags), std::nullopt);
  EXPECT_TRUE(flags.job_tokens);
  EXPECT_TRUE(flags.network_policies);
}

TEST(FlagsTest, ABadValueIsNamedWithItsFlagAndTheRange) {
  EXPECT_THAT(ErrorOf({"--controller-threads=0"}),
              AllOf(HasSubstr("--controller-threads"), HasSubstr("1"), HasSubstr("64")));
  EXPECT_THAT(ErrorOf({"--controller-threads=many"}), HasSubstr("--controller-threads"));
  EXPECT_THAT(ErrorOf({"--kube-api-qps=-1"}),
              AllOf(HasSubstr("--kube-api-qps"), HasSubstr("100000")));
  EXPECT_THAT(ErrorOf({"--kube-api-burst=1.5"}), HasSubstr("--kube-api-burst"));
  EXPECT_THAT(
      ErrorOf({"--metrics-bind-address=8080"}),
      AllOf(HasSubstr("--metrics-bind-address"), HasSubstr("found \"8080\""), HasSubstr("65535")));
  EXPECT_THAT(ErrorOf({"--health-probe-bind-address=:80800"}),
              HasSubstr("--health-probe-bind-address"));
  EXPECT_THAT(ErrorOf({"--leader-elect=perhaps"}), HasSubstr("perhaps"));
  EXPECT_THAT(ErrorOf({"--trainer-image="}), HasSubstr("--trainer-image"));
  EXPECT_THAT(ErrorOf({"--trainer-gpu-image="}), HasSubstr("--trainer-gpu-image"));
  EXPECT_THAT(ErrorOf({"--cluster-domain=Cluster.local."}),
              HasSubstr("--cluster-domain: found \"Cluster.local.\", expected a DNS domain"));
  EXPECT_THAT(ErrorOf({"--token-key-secret="}), HasSubstr("--token-key-secret"));
  for (const char* name : {"", "Team_A", "-a", "a..b"}) {
    EXPECT_THAT(ErrorOf({"--leader-election-name", name}),
                AllOf(HasSubstr("--leader-election-name"),
                      HasSubstr("found \"" + std::string(name) + "\""), HasSubstr("253")));
  }
  EXPECT_THAT(ErrorOf({"--log-level=loud"}), HasSubstr("--log-level"));
  EXPECT_THAT(ErrorOf({"--no-such-flag"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(ErrorOf({"extra"}), HasSubstr("extra"));
}

TEST(FlagsTest, TheDocumentListsEveryFlag) {
  std::ifstream page(LOCKSTEP_SOURCE_DIR "/docs/operator.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  auto flags = FlagsIn(Help(), kFlagInHelp);
  flags.erase("--help");
  flags.erase("--version");
  EXPECT_GT(flags.size(), 10u);
  EXPECT_EQ(flags, FlagsIn(text, std::regex(R"(\n\| `(--[a-z-]+)`)")));
}

}  // namespace
}  // namespace lockstep::server
