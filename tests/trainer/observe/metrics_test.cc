#include "trainer/observe/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/folders.h"
#include "tests/support/http_request.h"
#include "tests/support/ipv6.h"
#include "tests/support/temp_directory.h"

namespace lockstep::train {
namespace {

using lockstep::testing::Request;
using ::testing::HasSubstr;
using ::testing::Not;

std::unique_ptr<MetricsServer> StartServer() {
  auto server = MetricsServer::Start("127.0.0.1:0", /*fresh_for=*/Duration::zero());
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string Scrape(const MetricsServer& server) {
  return Request(server.port(), "GET", "/metrics");
}

TEST(MetricsServerTest, APodWithAnIpv6AddressIsServedThere) {
  if (!lockstep::testing::HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  const auto server = MetricsServer::Start("[::1]:0");
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT(Request((*server)->port(), "GET", "/metrics", /*ipv6=*/true), HasSubstr("200 OK"));
}

TEST(MetricsServerTest, ServesAParameterServerOnceItIsKnown) {
  const auto server = StartServer();
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("lockstep_trainer_server_")));
  ServerMetrics metrics{
      .server = 2, .updates = 7, .dropped = 1, .pushed_bytes = 80, .pulled_bytes = 90};
  for (const std::int64_t staleness : {0, 3, 500}) metrics.staleness.Observe(staleness);
  server->UpdateServer(metrics);
  const std::string answer = Scrape(*server);
  for (const char* line : {
           "lockstep_trainer_server_updates_total{server=\"2\"} 7\n",
           "lockstep_trainer_server_dropped_gradients_total{server=\"2\"} 1\n",
           "lockstep_trainer_server_pushed_bytes_total{server=\"2\"} 80\n",
           "lockstep_trainer_server_pulled_bytes_total{server=\"2\"} 90\n",
           "lockstep_trainer_server_staleness_updates_bucket{server=\"2\",le=\"0\"} 1\n",
           "lockstep_trainer_server_staleness_updates_bucket{server=\"2\",le=\"4\"} 2\n",
           "lockstep_trainer_server_staleness_updates_bucket{server=\"2\",le=\"128\"} 2\n",
           "lockstep_trainer_server_staleness_updates_bucket{server=\"2\",le=\"+Inf\"} 3\n",
           "lockstep_trainer_server_staleness_updates_sum{server=\"2\"} 503\n",
       }) {
    EXPECT_THAT(answer, HasSubstr(line));
  }
}

TEST(MetricsServerTest, ServesEveryReplicaUnderItsRank) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  metrics.rank = 2;
  metrics.loss = 0.25;
  metrics.steps_total = 7;
  metrics.input_seconds = 1.5;
  server->Update(0, metrics);
  metrics.rank = 3;
  metrics.loss = std::nan("");
  server->Update(1, metrics);
  const std::string answer = Scrape(*server);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_loss{rank=\"2\"} 0.25\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_loss{rank=\"3\"} Nan\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_steps_total{rank=\"2\"} 7\n"));
  EXPECT_THAT(answer,
              HasSubstr("lockstep_trainer_time_seconds_total{rank=\"2\",phase=\"input\"} 1.5\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_replica_restarts_total{rank=\"2\"} 0\n"));
}

TEST(MetricsServerTest, CountersGoOnWhenAReplicaStartsAgain) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  for (const int total : {3, 10}) {
    metrics.steps_total = total;
    server->Update(0, metrics);
  }
  server->CountReplicaRestart(0);
  metrics.steps_total =
      12;  // a new process may well be past the old one's total at its first report
  server->Update(0, metrics);
  EXPECT_THAT(Scrape(*server), HasSubstr("lockstep_trainer_steps_total{rank=\"0\"} 22\n"));
  EXPECT_THAT(Scrape(*server),
              HasSubstr("lockstep_trainer_replica_restarts_total{rank=\"0\"} 1\n"));
  metrics.steps_total = 4;  // a restart that nobody has reported
  server->Update(0, metrics);
  EXPECT_THAT(Scrape(*server), HasSubstr("lockstep_trainer_steps_total{rank=\"0\"} 26\n"));
}

TEST(MetricsServerTest, OnlyALeadingRankHasHistograms) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  metrics.rank = 1;
  server->Update(0, metrics);
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("duration_seconds")));
  metrics.rank = 0;
  server->Update(0, metrics);
  // From 0 on: rate() and increase() miss what a series begins with.
  for (const char* what : {"step", "checkpoint"}) {
    EXPECT_THAT(Scrape(*server),
                HasSubstr(fmt::format(
                    "lockstep_trainer_{}_duration_seconds_count{{rank=\"0\"}} 0\n", what)));
  }
  metrics.step_seconds.Observe(0.02);
  metrics.step_seconds.Observe(2);
  server->Update(0, metrics);
  const std::string answer = Scrape(*server);
  const std::string name = "lockstep_trainer_step_duration_seconds";
  EXPECT_THAT(answer, HasSubstr("# TYPE " + name + " histogram\n"));
  EXPECT_THAT(answer, HasSubstr(name + "_bucket{rank=\"0\",le=\"0.025\"} 1\n"));
  EXPECT_THAT(answer, HasSubstr(name + "_bucket{rank=\"0\",le=\"2.5\"} 2\n"));
  EXPECT_THAT(answer, HasSubstr(name + "_bucket{rank=\"0\",le=\"+Inf\"} 2\n"));
  EXPECT_THAT(answer, HasSubstr(name + "_sum{rank=\"0\"} 2.02\n"));
}

TEST(MetricsServerTest, NewRankReplacesTheOldOne) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  metrics.rank = 5;
  server->Update(0, metrics);
  metrics.rank = 1;
  server->Update(0, metrics);
  EXPECT_THAT(Scrape(*server), HasSubstr("lockstep_trainer_step{rank=\"1\"} 0\n"));
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("rank=\"5\"")));
}

TEST(MetricsServerTest, CheckpointsAreTimedAndCounted) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  metrics.gradient_norm = 0.5;
  metrics.checkpoint_bytes = 4096;
  metrics.checkpoint_failures = 2;
  metrics.checkpoint_durations.Observe(0.3);
  server->Update(0, metrics);
  server->CountReplicaRestart(0);
  metrics.checkpoint_failures = 1;
  server->Update(0, metrics);
  const std::string answer = Scrape(*server);
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_gradient_norm{rank=\"0\"} 0.5\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_checkpoint_size_bytes{rank=\"0\"} 4096\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_checkpoint_failures_total{rank=\"0\"} 3\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_checkpoint_duration_seconds_bucket{rank=\"0\","
                                "le=\"0.5\"} 2\n"));
}

TEST(MetricsServerTest, OnlyAnEvaluatorHasItsSeries) {
  const auto server = StartServer();
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("lockstep_trainer_evaluator")));
  server->UpdateEvaluator({.step = 7, .test_accuracy = 0.75, .evaluations = 2});
  const std::string answer = Scrape(*server);
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_evaluator_step 7\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_evaluator_test_accuracy_ratio 0.75\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_evaluator_test_mean_absolute_error Nan\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_evaluator_evaluations_total 2\n"));
}

TEST(MetricsServerTest, NamedMetricsAreSeriesOfOneFamily) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  server->Update(0, metrics);
  server->UpdateEvaluator({});
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("test_metric")));
  metrics.test_metrics = {{api::TestMetric::kAuc, 0.5}, {api::TestMetric::kRecall, 0.25}};
  server->Update(0, metrics);
  server->UpdateEvaluator({.test_metrics = {{api::TestMetric::kAuc, 0.75}}});
  const std::string answer = Scrape(*server);
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_test_metric{rank=\"0\",metric=\"AUC\"} 0.5\n"
                                "lockstep_trainer_test_metric{rank=\"0\",metric=\"Recall\"} "
                                "0.25\n"));
  EXPECT_THAT(answer, HasSubstr("lockstep_trainer_evaluator_test_metric{metric=\"AUC\"} 0.75\n"));
}

TEST(MetricsServerTest, RestartsOfAProcessWithoutARankAreCounted) {
  const auto of_server = StartServer(), of_evaluator = StartServer();
  of_server->UpdateServer({.server = 2});
  of_evaluator->UpdateEvaluator({});
  EXPECT_THAT(Scrape(*of_server),
              HasSubstr("lockstep_trainer_replica_restarts_total{server=\"2\"} 0\n"));
  of_server->CountReplicaRestart(0);
  of_evaluator->CountReplicaRestart(0);
  EXPECT_THAT(Scrape(*of_server),
              HasSubstr("lockstep_trainer_replica_restarts_total{server=\"2\"} 1\n"));
  EXPECT_THAT(Scrape(*of_evaluator), HasSubstr("lockstep_trainer_replica_restarts_total 1\n"));
}

TEST(MetricsServerTest, OnlyALeadingPodHasRefusals) {
  const auto server = StartServer();
  EXPECT_THAT(Scrape(*server), Not(HasSubstr("refusals")));
  std::int64_t refused = 0;
  server->ShowRefusals([&refused] { return refused; });
  EXPECT_THAT(Scrape(*server), HasSubstr("lockstep_trainer_rendezvous_refusals_total 0\n"));
  refused = 3;
  EXPECT_THAT(Scrape(*server), HasSubstr("lockstep_trainer_rendezvous_refusals_total 3\n"));
}

// Anybody who reaches the port may ask as often as they like.
TEST(MetricsServerTest, TheMetricsAreMadeAtMostOnceASecond) {
  const auto server = MetricsServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  std::atomic<std::int64_t> made{0};
  (*server)->ShowRefusals([&made] { return ++made; });
  const SteadyTime start = std::chrono::steady_clock::now();
  for (int i = 0; i < 200; ++i) EXPECT_THAT(Scrape(**server), HasSubstr("refusals_total"));
  const Duration took = std::chrono::steady_clock::now() - start;
  EXPECT_LE(made, 1 + took / std::chrono::seconds(1));
}

// The naming rules of prometheus.io/docs/practices/naming.
TEST(MetricsServerTest, NamesFollowTheRulesAndEveryFamilyIsDescribedOnce) {
  const auto server = StartServer();
  server->Update(0, {});
  std::istringstream lines(Scrape(*server));
  std::set<std::string> described;
  int families = 0;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, std::regex("# TYPE (\\S+) (counter|gauge)"))) continue;
    ++families;
    const std::string name = match[1];
    EXPECT_TRUE(described.insert(name).second) << name;
    EXPECT_TRUE(name.starts_with("lockstep_trainer_")) << name;
    EXPECT_EQ(name.ends_with("_total"), match[2] == "counter") << name;
  }
  EXPECT_EQ(families, 32);
}

// Name -> type, of the lines that match: those of a table in Markdown, or of an exposition.
std::map<std::string, std::string> Types(std::istream& lines, const std::string& pattern) {
  std::map<std::string, std::string> found;
  std::smatch match;
  const std::regex expected(pattern);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, expected)) found[match[1]] = match[2];
  }
  return found;
}

TEST(MetricsServerTest, TheDocumentListsWhatIsExported) {
  const auto server = StartServer();
  ReplicaMetrics metrics;
  metrics.test_metrics = {{api::TestMetric::kAuc, 0.5}};
  server->ShowRefusals([] { return 0; });
  server->Update(0, metrics);
  server->UpdateServer({});
  server->UpdateEvaluator({.test_metrics = metrics.test_metrics});
  std::istringstream exported(Scrape(*server));
  std::ifstream page(LOCKSTEP_SOURCE_DIR "/docs/metrics.md");
  EXPECT_EQ(Types(page, R"(^\| `(lockstep_trainer_[a-z_]+)` \| ([a-z]+) \|)"),
            Types(exported, R"(^# TYPE (\S+) (\S+))"));
}

TEST(MetricsServerTest, TheDocumentSaysHowManySeriesThereAre) {
  std::string page = ReadTextFile(LOCKSTEP_SOURCE_DIR "/docs/metrics.md");
  std::ranges::replace(page, '\n', ' ');
  const auto count = [](const MetricsServer& server, const std::string& pattern) {
    const std::string exported = Scrape(server);
    const std::regex series("\n" + pattern);
    return std::distance(std::sregex_iterator(exported.begin(), exported.end(), series), {});
  };
  const auto group = StartServer();
  for (const int rank : {0, 1}) {
    ReplicaMetrics metrics;
    metrics.rank = rank;
    group->Update(rank, metrics);
  }
  const auto leading = count(*group, R"(lockstep_[^ ]*rank="0")");
  const auto other = count(*group, R"(lockstep_[^ ]*rank="1")");
  EXPECT_THAT(page,
              HasSubstr(fmt::format("There are {} series per rank, {} more for the leading rank",
                                    other, leading - other)));
  EXPECT_THAT(page, HasSubstr(fmt::format("{} in all", leading)));
  const auto server = StartServer();
  server->UpdateServer({});
  EXPECT_THAT(page, HasSubstr(fmt::format("{} series with the label `server`",
                                          count(*server, R"(lockstep_[^ ]*server="0")"))));
  const auto evaluator = StartServer();
  evaluator->UpdateEvaluator({});
  EXPECT_THAT(page, HasSubstr(fmt::format("that of an Evaluator {} without a label",
                                          count(*evaluator, "lockstep_[a-z_]+ "))));
}

TEST(MetricsServerTest, HealthAndUnknownPages) {
  const auto server = StartServer();
  EXPECT_THAT(Request(server->port(), "GET", "/healthz"), HasSubstr("\r\n\r\nok\n"));
  const std::string head = Request(server->port(), "HEAD", "/healthz");
  EXPECT_THAT(head, HasSubstr("200 OK"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  for (const char* path : {"/", "/metricsx", "/etc/passwd", "/../../etc/passwd"}) {
    EXPECT_THAT(Request(server->port(), "GET", path), HasSubstr(" 404 Not Found\r\n")) << path;
  }
}

TEST(MetricsServerTest, TakenPortIsNamed) {
  const auto server = StartServer();
  const std::string address = fmt::format("127.0.0.1:{}", server->port());
  const absl::Status status = MetricsServer::Start(address).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(address));
}

TEST(MetricsServerTest, ScrapesWhileReplicasReport) {
  const auto server = StartServer();
  std::thread reporter([&] {
    ReplicaMetrics metrics;
    for (int i = 0; i < 2000; ++i) {
      metrics.steps_total = i;
      server->Update(i % 3, metrics);
      if (i % 100 == 0) server->CountReplicaRestart(1);
    }
  });
  for (int i = 0; i < 10; ++i) EXPECT_THAT(Scrape(*server), HasSubstr("200 OK"));
  reporter.join();
}

}  // namespace
}  // namespace lockstep::train
