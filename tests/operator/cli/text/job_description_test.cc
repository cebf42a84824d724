#include "operator/cli/text/job_description.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "api/v1/names.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

using lockstep::testing::Job;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

kube::Object PodOf(int worker, int attempt, const std::string& node) {
  return {{"metadata",
           {{"name", fmt::format("mnist-worker-{}", worker)},
            {"labels",
             {{api::kLabelRole, "worker"},
              {api::kLabelReplicaIndex, std::to_string(worker)},
              {api::kLabelAttempt, std::to_string(attempt)}}}}},
          {"spec", {{"nodeName", node}, {"containers", {{{"name", "trainer"}}}}}},
          {"status",
           {{"phase", "Running"},
            {"containerStatuses",
             {{{"name", "trainer"},
               {"restartCount", 0},
               {"ready", true},
               {"state", {{"running", kube::Object::object()}}}}}}}}};
}

JobFacts FactsOf(int workers) {
  JobFacts facts;
  facts.job = Job("mnist").Workers(workers).Training().Build();
  return facts;
}

TEST(JobDescriptionTest, AReplicasRowIsOfItsNewestAttempt) {
  JobFacts facts = FactsOf(2);
  facts.pods = {PodOf(1, 9, "old"), PodOf(1, 10, "new"), PodOf(1, 8, "older"),
                PodOf(2, 10, "more")};
  const std::string text = DescribeJob(facts, Time{});
  EXPECT_THAT(text, ContainsRegex("worker-0 .*no pod\n"));
  EXPECT_THAT(text, ContainsRegex("worker-1 +new .*Running\n"));
  EXPECT_THAT(text, Not(HasSubstr("old")));
  EXPECT_THAT(text, ContainsRegex("worker-2 +more .*Running\n"));  // which the spec has no more
}

TEST(JobDescriptionTest, SaysWhatIsMeasuredOnTheTestSet) {
  JobFacts facts = FactsOf(1);
  api::Progress& progress = facts.job.status.progress.emplace();
  progress.step = 7;
  progress.test_mean_absolute_error = 1.25;
  progress.test_metrics[api::TestMetric::kRootMeanSquaredError] = 2.5;
  EXPECT_THAT(DescribeJob(facts, Time{}),
              HasSubstr("progress: step 7, test mean absolute error 1.25, "
                        "test RootMeanSquaredError 2.5"));
}

TEST(JobDescriptionTest, SaysIntoHowManyStagesTheModelIsCut) {
  JobFacts facts;
  facts.job = Job("mnist").Workers(4).Training().Stages(1).Build();
  EXPECT_THAT(DescribeJob(facts, Time{}), HasSubstr("\nstrategy: MultiWorkerMirrored\n"));
  facts.job = Job("mnist").Workers(4).Training().Stages(2).Build();
  EXPECT_THAT(DescribeJob(facts, Time{}), HasSubstr("\nstrategy: MultiWorkerMirrored, 2 stages\n"));
  facts.job = Job("mnist").Workers(4).Training().Stages(1).Build();
  facts.job.spec.strategy->sharding = api::Sharding::kZero1;
  EXPECT_THAT(DescribeJob(facts, Time{}), HasSubstr("\nstrategy: MultiWorkerMirrored, ZeRO1\n"));
}

// A look at all pods for each replica would take longer than a test may.
TEST(JobDescriptionTest, TheTimeGrowsWithTheReplicasAndNotWithTheirSquare) {
  constexpr int kWorkers = 30'000;
  JobFacts facts = FactsOf(kWorkers);
  for (int i = 0; i < kWorkers; ++i) facts.pods.push_back(PodOf(i, 0, "node"));
  EXPECT_THAT(DescribeJob(facts, Time{}), HasSubstr("\n30000 more run\n"));
}

}  // namespace
}  // namespace lockstep::cli
