#include "operator/metrics/operator_metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "api/v1/conditions.h"
#include "operator/kube/stream_end.h"
#include "tests/support/fake_clock.h"
#include "tests/support/folders.h"

namespace lockstep::metrics {
namespace {

using kube::kPodKind;
using kube::Verb;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

Snapshot::Job Job(const std::string& name, const std::string& state) {
  return {.namespace_name = "default", .name = name, .state = state};
}

api::TrainingJob Failed(const std::string& reason) {
  api::Condition condition;
  condition.type = "Failed";
  condition.status = api::ConditionStatus::kTrue;
  condition.reason = reason;
  api::TrainingJob job;
  job.status.conditions = {condition};
  return job;
}

constexpr Time kDivergedAt{std::chrono::seconds(1'777'636'800)};
constexpr char kLastEvent[] = "lockstep_operator_watch_last_event_timestamp_seconds{";
// Returns the line with this beginning.
std::string LineOf(const std::string& text, const std::string& begin) {
  const std::size_t at = text.find("\n" + begin);
  if (at == std::string::npos) return "";
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

// Returns how many lines have this beginning.
std::size_t Count(const std::string& text, const std::string& begin) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("\n" + begin, at)) != std::string::npos; ++at) ++count;
  return count;
}

struct OperatorMetricsTest : ::testing::Test {
  testing::FakeClock clock;
  OperatorMetrics metrics{clock, "1.2.3"};
  Snapshot snapshot;
  std::string Text() const { return metrics.Text(snapshot); }
};

TEST_F(OperatorMetricsTest, CallsAreCountedByVerbResourceAndCode) {
  metrics.OnCall(Verb::kCreate, kPodKind, "", absl::OkStatus(), milliseconds(3));
  metrics.OnCall(Verb::kCreate, kPodKind, "", absl::OkStatus(), milliseconds(30));
  metrics.OnCall(Verb::kCreate, kPodKind, "", absl::AlreadyExistsError("x"), milliseconds(3));
  const std::string text = Text();
  const std::string name = "lockstep_operator_kube_client_requests_total";
  for (const auto& [code, count] : {std::pair("OK", 2), std::pair("ALREADY_EXISTS", 1)}) {
    // The order of labels is unspecified.
    const std::regex line(fmt::format(
        "{}\\{{(?=.*verb=\"create\")(?=.*resource=\"pods\")(?=.*code=\"{}\").*\\}} {}\n", name,
        code, count));
    EXPECT_TRUE(std::regex_search(text, line)) << text;
  }
  EXPECT_THAT(text, HasSubstr("lockstep_operator_kube_client_request_duration_seconds_bucket{"
                              "verb=\"create\",le=\"0.005\"} 2\n"));
}

TEST_F(OperatorMetricsTest, ResizesAreCountedByDirection) {
  snapshot.grown = 3;
  snapshot.shrunk = 1;
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_job_resizes_total{direction=\"up\"} 3\n"));
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_job_resizes_total{direction=\"down\"} 1\n"));
}

TEST_F(OperatorMetricsTest, AWatchThatWeStoppedIsNoRestart) {
  metrics.OnCall(Verb::kWatch, kPodKind, "", absl::CancelledError("stopped"), milliseconds(1));
  EXPECT_THAT(Text(), Not(HasSubstr("watch_restarts_total{")));
  metrics.OnCall(Verb::kWatch, kPodKind, "", absl::OutOfRangeError("410"), milliseconds(1));
  EXPECT_THAT(Text(), HasSubstr("reason=\"Gone\""));
}

TEST_F(OperatorMetricsTest, SeriesOfAJobEndWithTheJob) {
  snapshot.jobs = {Job("a", "Running"), Job("b", "Succeeded")};
  EXPECT_THAT(Text(),
              HasSubstr("lockstep_operator_job_status{namespace=\"default\",trainingjob=\"a\","
                        "state=\"Running\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_jobs{state=\"Succeeded\"} 1\n"));
  snapshot.jobs.pop_back();
  EXPECT_THAT(Text(), Not(HasSubstr("trainingjob=\"b\"")));
  EXPECT_THAT(Text(), Not(HasSubstr("Succeeded")));
}

TEST_F(OperatorMetricsTest, AJobWithoutAStatusIsPending) {
  snapshot.jobs = {Job("a", "")};
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_jobs{state=\"Pending\"} 1\n"));
}

TEST_F(OperatorMetricsTest, JobsThatDivergedAreNamedWithTheTimeOfTheirFailure) {
  snapshot.jobs = {Job("a", "Failed"), Job("b", "Failed")};
  snapshot.jobs.back().diverged = kDivergedAt;
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_job_diverged_timestamp_seconds{"
                                "namespace=\"default\",trainingjob=\"b\"} 1777636800\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("job_diverged_timestamp_seconds{namespace=\"default\","
                                    "trainingjob=\"a\"}")));
}

TEST_F(OperatorMetricsTest, JobsThatLackReplicasAreNamedWithTheTimeSinceWhen) {
  const std::string name = "lockstep_operator_job_lacks_replicas_timestamp_seconds{";
  snapshot.jobs = {Job("a", "Running"), Job("b", "Restarting")};
  snapshot.jobs.back().short_since = kDivergedAt;
  EXPECT_EQ(LineOf(Text(), name), name + R"(namespace="default",trainingjob="b"} 1777636800)");
  snapshot.jobs.back().state = "Failed";
  EXPECT_EQ(LineOf(Text(), name), "");
  snapshot.jobs.assign(kMaxJobSeries + 1, Job("c", "Running"));
  for (Snapshot::Job& job : snapshot.jobs) job.short_since = kDivergedAt;
  EXPECT_EQ(Count(Text(), name), kMaxJobSeries);
}

TEST_F(OperatorMetricsTest, JobsWhoseTrainersShouldBeThereToScrapeAreCounted) {
  const auto add = [this](const char* state, bool has_training) -> Snapshot::Job& {
    snapshot.jobs.push_back(Job("j" + std::to_string(snapshot.jobs.size()), state));
    snapshot.jobs.back().has_training = has_training;
    return snapshot.jobs.back();
  };
  for (const char* state : {"", "Pending", "Restarting", "Suspended", "Succeeded", "Failed"}) {
    add(state, true);
  }
  add("Running", false);  // a user's own image
  add("Running", true).short_since = kDivergedAt;
  EXPECT_THAT(Text(), HasSubstr("\nlockstep_operator_jobs_training 0\n"));
  add("Running", true);
  add("Running", true);
  EXPECT_THAT(Text(), HasSubstr("\nlockstep_operator_jobs_training 2\n"));
}

TEST_F(OperatorMetricsTest, VariantsThatDivergedAreCountedWhileTheJobExists) {
  const std::string name = "lockstep_operator_job_diverged_variants{";
  for (const char* state : {"Running", "Succeeded"}) {
    snapshot.jobs = {Job("a", state), Job("b", state)};
    snapshot.jobs.back().diverged_variants = 3;
    EXPECT_EQ(LineOf(Text(), name), name + R"(namespace="default",trainingjob="b"} 3)");
    EXPECT_EQ(Count(Text(), name), 1) << "most jobs have none";
  }
}

TEST_F(OperatorMetricsTest, LostSamplesAreToldOfAlsoAfterTheEnd) {
  const std::string lost = "lockstep_operator_job_samples_lost{";
  const std::string duplicated = "lockstep_operator_job_samples_duplicated{";
  snapshot.jobs = {Job("a", "Succeeded"), Job("b", "Running"), Job("c", "Running")};
  snapshot.jobs[0].samples_lost = 3;
  snapshot.jobs[1].samples_duplicated = 2;
  const std::string text = Text();
  EXPECT_EQ(LineOf(text, lost), lost + R"(namespace="default",trainingjob="a"} 3)");
  EXPECT_EQ(LineOf(text, duplicated), duplicated + R"(namespace="default",trainingjob="b"} 2)");
  EXPECT_EQ(Count(text, lost) + Count(text, duplicated), 2);
}

TEST_F(OperatorMetricsTest, RestartsOfAnUnfinishedJobAreCountedByCause) {
  snapshot.jobs = {Job("a", "Restarting"), Job("b", "Failed"), Job("c", "Running")};
  snapshot.jobs[0].restarts = {.application = 3, .disruption = 1, .evaluator = 2};
  snapshot.jobs[1].restarts = {.application = 7};
  snapshot.jobs.push_back(Job("new", "Running"));
  snapshot.jobs.back().restarts = std::nullopt;
  const std::string text = Text();
  const auto line = [](const char* job, const char* cause, int count) {
    return fmt::format(
        "lockstep_operator_job_status_restarts_total{{namespace=\"default\",trainingjob=\"{}\","
        "cause=\"{}\"}} {}\n",
        job, cause, count);
  };
  EXPECT_THAT(text, HasSubstr(line("a", "application", 3)));
  EXPECT_THAT(text, HasSubstr(line("a", "disruption", 1)));
  EXPECT_THAT(text, HasSubstr(line("a", "evaluator", 2)));
  EXPECT_THAT(text, HasSubstr(line("c", "application", 0))) << "the first must be an increase";
  EXPECT_THAT(text, Not(HasSubstr(line("b", "application", 7))));
  EXPECT_THAT(text, Not(HasSubstr(line("new", "application", 0))))
      << "what there was is no increase";
}

TEST_F(OperatorMetricsTest, UnfinishedJobsComeFirstWhereThereAreTooMany) {
  for (std::size_t i = 0; i < kMaxJobSeries; ++i) {
    snapshot.jobs.push_back(Job("done-" + std::to_string(i), "Succeeded"));
  }
  snapshot.jobs.push_back(Job("busy", "Running"));
  EXPECT_THAT(Text(), HasSubstr("trainingjob=\"busy\""));
  EXPECT_THAT(Text(), Not(HasSubstr(fmt::format("\"done-{}\"", kMaxJobSeries - 1))));
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_job_series_left_out 1\n"));
}

TEST_F(OperatorMetricsTest, FailuresBeginAtZeroSoThatTheFirstIsAnIncrease) {
  for (const auto& [reason, name] : api::kFailureReasons) {
    EXPECT_THAT(Text(), HasSubstr(fmt::format(
                            "lockstep_operator_jobs_failed_total{{reason=\"{}\"}} 0\n", name)));
  }
}

TEST_F(OperatorMetricsTest, EndsOfAWatchBeginAtZeroWithItsFirstEvent) {
  metrics.OnWatchEvent(kPodKind, "");
  for (const char* reason : {"Closed", "Gone", "IdleTimeout", "Error"}) {
    EXPECT_THAT(Text(), HasSubstr(fmt::format("lockstep_operator_watch_restarts_total{{reason="
                                              "\"{}\",resource=\"pods\"}} 0\n",
                                              reason)));
  }
}

TEST_F(OperatorMetricsTest, OnlyAWatchThatWasSilentForTooLongEndsByIdleness) {
  const auto count = [this](const char* reason) {
    const std::string begin = fmt::format(
        "lockstep_operator_watch_restarts_total{{reason=\"{}\",resource=\"pods\"}} ", reason);
    const std::string line = LineOf(Text(), begin);
    return line.empty() ? "" : line.substr(begin.size());
  };
  metrics.OnCall(Verb::kWatch, kPodKind, "", absl::DeadlineExceededError("no headers"), {});
  EXPECT_EQ(count("IdleTimeout"), "");
  EXPECT_EQ(count("Error"), "1");
  metrics.OnCall(Verb::kWatch, kPodKind, "", kube::MarkSilent(absl::UnavailableError("x")), {});
  EXPECT_EQ(count("IdleTimeout"), "1");
}

TEST_F(OperatorMetricsTest, OfSeveralNamespacesTheQuietestWatchIsShown) {
  metrics.OnWatchEvent(kPodKind, "team-a");
  const std::string first = Text();
  clock.Advance(std::chrono::minutes(20));
  metrics.OnWatchEvent(kPodKind, "team-b");
  EXPECT_EQ(LineOf(Text(), kLastEvent), LineOf(first, kLastEvent));
  metrics.OnWatchEvent(kPodKind, "team-a");
  EXPECT_NE(LineOf(Text(), kLastEvent), LineOf(first, kLastEvent));
}

TEST_F(OperatorMetricsTest, AWatchThatNeverBringsAnythingIsOldFromItsFirstStart) {
  metrics.OnWatchEvent(kPodKind, "team-a");
  metrics.OnWatchStart(kPodKind, "team-b");
  const std::string first = LineOf(Text(), kLastEvent);
  for (int i = 0; i < 4; ++i) {
    clock.Advance(std::chrono::minutes(4));
    metrics.OnCall(Verb::kWatch, kPodKind, "team-b", kube::MarkSilent(absl::UnavailableError("x")),
                   {});
    metrics.OnWatchStart(kPodKind, "team-b");
    metrics.OnWatchEvent(kPodKind, "team-a");
    EXPECT_EQ(LineOf(Text(), kLastEvent), first);
  }
  metrics.OnCall(Verb::kWatch, kPodKind, "team-b", absl::OkStatus(), {});  // its time was over
  EXPECT_NE(LineOf(Text(), kLastEvent), first);
}

// It would be silent for good, and hide whether those of other namespaces are.
TEST_F(OperatorMetricsTest, AWatchThatTheServerDeniesIsNotSilent) {
  metrics.OnWatchEvent(kPodKind, "gone");
  for (const Verb verb : {Verb::kWatch, Verb::kList}) {
    for (const absl::Status& end :
         {absl::PermissionDeniedError("403"), absl::NotFoundError("404")}) {
      const std::string before = LineOf(Text(), kLastEvent);
      clock.Advance(std::chrono::minutes(20));
      metrics.OnWatchEvent(kPodKind, "team-a");
      EXPECT_EQ(LineOf(Text(), kLastEvent), before);
      metrics.OnCall(verb, kPodKind, "gone", absl::UnavailableError("no answer"), {});
      EXPECT_EQ(LineOf(Text(), kLastEvent), before);
      metrics.OnCall(verb, kPodKind, "gone", end, {});
      EXPECT_NE(LineOf(Text(), kLastEvent), before) << end;
    }
  }
}

// As by an operator that does not lead yet.
TEST_F(OperatorMetricsTest, WhereNobodyWatchesADenialIsNoSign) {
  metrics.OnCall(Verb::kList, kPodKind, "gone", absl::PermissionDeniedError("403"), {});
  EXPECT_EQ(LineOf(Text(), kLastEvent), "");
}

TEST_F(OperatorMetricsTest, TheStartOfTheProcessStaysTheSame) {
  const std::string begin = "process_start_time_seconds ";
  const std::string first = LineOf(Text(), begin);
  EXPECT_NE(first, "");
  clock.Advance(std::chrono::hours(1));
  EXPECT_EQ(LineOf(Text(), begin), first);
  EXPECT_NE(LineOf(OperatorMetrics(clock, "1.2.3").Text(snapshot), begin), first);
}

TEST_F(OperatorMetricsTest, ReasonsThatOthersWroteAreBounded) {
  const api::TrainingJob before;
  for (int i = 0; i < 100; ++i) metrics.OnJobChange(&before, Failed(fmt::format("Made{}Up", i)));
  // 32 series: ours, theirs and the one for the rest.
  const std::size_t rest = 100 - (32 - std::size(api::kFailureReasons));
  EXPECT_THAT(Text(), HasSubstr(fmt::format(
                          "lockstep_operator_jobs_failed_total{{reason=\"Other\"}} {}\n", rest)));
  EXPECT_THAT(Text(), Not(HasSubstr("Made40Up")));
}

TEST_F(OperatorMetricsTest, AReplicaThatIsReplacedIsARecovery) {
  api::TrainingJob job;
  job.metadata.uid = "1";
  job.status.conditions.emplace_back();
  job.status.conditions[0].type = "Running";
  job.status.conditions[0].status = api::ConditionStatus::kTrue;
  job.status.ready_replicas = "2/2";
  api::TrainingJob lost = job;
  lost.status.ready_replicas = "1/2";
  lost.status.restarts.application = 1;
  api::TrainingJob back = lost;
  back.status.ready_replicas = "2/2";
  metrics.OnJobChange(&job, lost);
  clock.Advance(std::chrono::seconds(7));
  metrics.OnJobChange(&lost, back);
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_job_recovery_duration_seconds_sum 7\n"));
}

TEST_F(OperatorMetricsTest, AFinishedReconcileIsSuccessOrError) {
  snapshot.successes = 3;
  snapshot.failures = 2;
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_reconcile_total{result=\"success\"} 3\n"));
  EXPECT_THAT(Text(), HasSubstr("lockstep_operator_reconcile_total{result=\"error\"} 2\n"));
}

// Returns name -> type from the operator's table in docs/metrics.md.
std::map<std::string, std::string> Documented() {
  std::ifstream page(LOCKSTEP_SOURCE_DIR "/docs/metrics.md");
  std::map<std::string, std::string> found;
  const std::regex row(R"(^\| `([a-z_]+)` \| ([a-z]+) \|)");
  std::smatch match;
  for (std::string line; std::getline(page, line);) {
    if (!std::regex_search(line, match, row)) continue;
    if (!match[1].str().starts_with("lockstep_trainer_")) found[match[1]] = match[2];
  }
  return found;
}

std::map<std::string, std::string> Exported(const std::string& text) {
  std::istringstream lines(text);
  std::map<std::string, std::string> found;
  const std::regex type(R"(^# TYPE ([a-z_]+) ([a-z]+))");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, type)) found[match[1]] = match[2];
  }
  return found;
}

TEST_F(OperatorMetricsTest, TheDocumentListsWhatIsExported) {
  // Families without a sample are not exported.
  metrics.OnCall(Verb::kCreate, kPodKind, "", absl::OkStatus(), milliseconds(3));
  metrics.OnCall(Verb::kWatch, kPodKind, "", absl::OkStatus(), milliseconds(3));
  metrics.OnWatchEvent(kPodKind, "");
  const api::TrainingJob before;
  metrics.OnJobChange(&before, Failed("DeadlineExceeded"));
  snapshot.jobs = {Job("a", "Running"), Job("b", "Failed")};
  snapshot.jobs.front().short_since = kDivergedAt;
  snapshot.jobs.back().diverged = kDivergedAt;
  snapshot.jobs.back().diverged_variants = 1;
  snapshot.jobs.back().samples_lost = snapshot.jobs.back().samples_duplicated = 1;
  snapshot.caches = {{"pods", true, 3}};
  EXPECT_EQ(Exported(Text()), Documented());
}

}  // namespace
}  // namespace lockstep::metrics
