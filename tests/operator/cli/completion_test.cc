#include "operator/cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "operator/cli/logs_command.h"
#include "operator/cli/run_command.h"
#include "operator/cli/shared_options.h"
#include "tests/operator/cli/fake_cluster.h"

namespace lockstep::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() : app_("x", "lockstep") {
    AddRunCommand(app_, run_);
    AddLogsCommand(app_, logs_);
  }
  Completions Of(const std::vector<std::string>& words) {
    const ClusterNames names{
        .jobs =
            [](const ClusterOptions& options) {
              return std::vector<std::string>{"mnist", "of-" + options.namespace_name};
            },
        .namespaces = [](const auto&) { return std::vector<std::string>{"team"}; },
        .contexts = [](const auto&) { return std::vector<std::string>{"kind"}; }};
    return Complete(app_, words, names);
  }

  CLI::App app_;
  RunOptions run_;
  LogsOptions logs_;
};

TEST_F(CompletionTest, VerbsThenOptionsThenWhatTheyExpect) {
  EXPECT_THAT(Of({""}).words, ElementsAre("logs", "run"));
  EXPECT_THAT(Of({"l"}).words, ElementsAre("logs"));
  EXPECT_THAT(Of({"--h"}).words, ElementsAre("--help"));
  EXPECT_THAT(Of({"logs", "--ta"}).words, ElementsAre("--tail"));
  EXPECT_THAT(Of({"logs", "--"}).words, Not(Contains("JOB")));
  EXPECT_THAT(Of({"logs", "--tail", ""}).words, IsEmpty());
  EXPECT_THAT(Of({"run", "--output", ""}).words, ElementsAre("json", "text"));
  EXPECT_THAT(Of({"run", "--output=j"}).words, ElementsAre("--output=json"));
  EXPECT_THAT(Of({"run", "--fly=j"}).words, IsEmpty());
  EXPECT_THAT(Of({"logs", "--role", "w"}).words, ElementsAre("worker"));
  EXPECT_THAT(Of({"fly", ""}).words, IsEmpty());
}

TEST_F(CompletionTest, NamesComeFromTheClusterThatTheLineNames) {
  EXPECT_THAT(Of({"logs", "m"}).words, ElementsAre("mnist"));
  EXPECT_THAT(Of({"logs", "-n", "team", "of"}).words, ElementsAre("of-team"));
  EXPECT_THAT(Of({"logs", "--namespace=team", "--follow", "of"}).words, ElementsAre("of-team"));
  EXPECT_THAT(Of({"logs", "mnist", ""}).words, IsEmpty()) << "one job only";
  EXPECT_THAT(Of({"logs", "-n", ""}).words, ElementsAre("team"));
  EXPECT_THAT(Of({"logs", "--context", ""}).words, ElementsAre("kind"));
}

TEST_F(CompletionTest, FilesWhereOneIsExpected) {
  EXPECT_TRUE(Of({"run", ""}).files);
  EXPECT_TRUE(Of({"run", "job.yaml", "--work-dir", ""}).files);
  EXPECT_TRUE(Of({"run", "job.yaml", "--work-dir=r"}).files);
  EXPECT_FALSE(Of({"run", "job.yaml", ""}).files);
  EXPECT_FALSE(Of({"logs", ""}).files);
}

TEST_F(CompletionTest, AValueIsCompletedByItsTypeWhateverItsName) {
  std::string any;
  CLI::App* verb = app_.add_subcommand("compare", "Compares");
  verb->add_option("THIS", any, "One")->type_name(kJobType);
  verb->add_option("--that", any, "Another")->type_name(kJobType)->check(CLI::IsMember({"a"}));
  verb->add_option("--in", any, "Where")->type_name(kNamespaceType);
  verb->add_option("--to", any, "A file")->type_name(kFileType);
  verb->add_option("JOB", any, "No job")->type_name("COLOR");
  EXPECT_THAT(Of({"compare", "m"}).words, ElementsAre("mnist"));
  EXPECT_THAT(Of({"compare", "--that=m"}).words, ElementsAre("--that=mnist"));
  EXPECT_THAT(Of({"compare", "--in", ""}).words, ElementsAre("team"));
  EXPECT_TRUE(Of({"compare", "--to", ""}).files);
  EXPECT_THAT(Of({"compare", "mnist", ""}).words, IsEmpty());
}

TEST_F(CompletionTest, WithoutAClusterThereAreNoNames) {
  const testing::FakeCluster cluster(403, R"({"kind": "Status"})");
  const ClusterOptions options{.kubeconfig = cluster.kubeconfig()};
  EXPECT_THAT(NamesOfCluster().jobs(options), IsEmpty());
  EXPECT_THAT(NamesOfCluster().contexts(options), ElementsAre("c"));
  EXPECT_THAT(NamesOfCluster().jobs({.kubeconfig = "/no/such"}), IsEmpty());
}

}  // namespace
}  // namespace lockstep::cli
