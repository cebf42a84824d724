#include "operator/controller/children/pod_revision.h"

#include <gtest/gtest.h>

#include "operator/controller/children/kueue.h"
#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using api::RestartScope;
using api::Role;
using api::StrategyType;
using testing::Job;

testing::JobBuilder Elastic() {
  return Job("j").Workers(2).With(
      [](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; });
}

TEST(PodRevisionTest, TheShapeIsForThoseWhoMustKnowWhenItChanges) {
  struct Case {
    const char* name;
    testing::JobBuilder job;
    const char* expected;
  };
  const Case cases[] = {
      {"not elastic", Job("j").Workers(2), "worker=2"},
      {"nor adapting", Job("j").Workers(2).RestartScope(RestartScope::kPod), "worker=2"},
      {"full TF_CONFIG",
       Job("j").Workers(2).ParameterServers(1).Strategy(StrategyType::kParameterServer),
       "worker=2,ps=1"},
      {"nobody's peers", Job("j").Workers(2).Strategy(StrategyType::kIndependent), "independent"},
      {"gang", Elastic(), "worker=2"},
      {"in place", Elastic().Training(), "worker=2"},
      {"chief", Elastic().Chief(), "chief=1,worker=2"},
      {"evaluator is nobody's peer", Elastic().Evaluator(), "worker=2"},
      {"the program finds its peers", Elastic().RestartScope(RestartScope::kPod), "elastic"},
      {"sparse TF_CONFIG",
       Elastic()
           .ParameterServers(1)
           .Strategy(StrategyType::kParameterServer)
           .RestartScope(RestartScope::kGang),
       "elastic"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ClusterShape(c.job.BuildWithDefaults()), c.expected) << c.name;
  }
}

TEST(PodRevisionTest, ANoteOfBoundsIsReadAsItWasWritten) {
  EXPECT_EQ(WriteElasticBounds({1, 10'000}), "1:10000");
  EXPECT_EQ(ReadElasticBounds("1:10000"), (api::ElasticSpec{1, 10'000}));
  for (const char* none : {"", "1", "1:", ":4", "1:4 ", "a:b", "1:99999999999"}) {
    EXPECT_FALSE(ReadElasticBounds(none)) << none;
  }
}

// Pods have it in an annotation, and may be older than the operator. If a value changes, so must
// the scheme before the colon.
TEST(PodRevisionTest, TheHashStaysWhatItWas) {
  const api::TrainingJob plain = Job("j").Workers(2).BuildWithDefaults();
  EXPECT_EQ(SpecHash(plain, Role::kWorker), "3:223130193a788bb4");
  const api::TrainingJob trains = Job("j").Workers(2).Training().BuildWithDefaults();
  EXPECT_EQ(SpecHash(trains, Role::kWorker), "3:cd920b5506362475");
  const api::TrainingJob own =
      Job("j").Workers(2).Strategy(api::StrategyType::kMultiWorkerMirrored).BuildWithDefaults();
  EXPECT_EQ(SpecHash(own, Role::kWorker), "3:8b12bcd2b8f9e26a");
}

TEST(PodRevisionTest, AHashOfAnotherSchemeSaysNothing) {
  EXPECT_TRUE(IsComparable("3:223130193a788bb4"));
  EXPECT_FALSE(IsComparable("223130193a788bb4")) << "of the first operators";
  EXPECT_FALSE(IsComparable("2:223130193a788bb4")) << "of earlier ones";
  EXPECT_FALSE(IsComparable("4:223130193a788bb4")) << "of a later one, before a roll-back";
  EXPECT_FALSE(IsComparable("")) << "somebody has removed it";
}

TEST(PodRevisionTest, TheHashDiffersWhenPodsWouldBeMadeOtherwise) {
  struct Case {
    const char* name;
    std::function<void(api::TrainingJob&)> edit;
    bool differs;
  };
  const Case cases[] = {
      {"nothing", [](api::TrainingJob&) {}, false},
      {"replicas",
       [](api::TrainingJob& job) { job.spec.replica_specs[Role::kWorker].replicas = 3; }, false},
      {"deadline", [](api::TrainingJob& job) { job.spec.run_policy.active_deadline_seconds = 5; },
       false},
      {"image",
       [](api::TrainingJob& job) {
         job.spec.replica_specs[Role::kWorker].tmpl = testing::Template("tensorflow", "other:2");
       },
       true},
      {"strategy", [](api::TrainingJob& job) { job.spec.strategy.emplace(); }, true},
      {"stages", [](api::TrainingJob& job) { job.spec.strategy.emplace().stages = 2; }, true},
      {"training", [](api::TrainingJob& job) { job.spec.training = testing::MnistTraining(); },
       true},
  };
  const std::string before = SpecHash(Job("j").Workers(2).BuildWithDefaults(), Role::kWorker);
  for (const Case& c : cases) {
    api::TrainingJob job = Job("j").Workers(2).BuildWithDefaults();
    c.edit(job);
    EXPECT_EQ(SpecHash(job, Role::kWorker) != before, c.differs) << c.name;
  }
}

}  // namespace
}  // namespace lockstep::controller
