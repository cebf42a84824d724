// Edits of the strategy of a job that runs: in the change that suspends it, or while no operator
// sees the suspension.
#include "operator/controller/rules/parts/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "api/v1/names.h"
#include "operator/controller/state/kinds.h"
#include "tests/operator/controller/world.h"

namespace lockstep::controller {
namespace {

using api::StrategyType;
using ::testing::Contains;
using ::testing::IsEmpty;
using testing::Job;
using testing::World;

constexpr char kTogether[] = "MultiWorkerMirrored";
constexpr char kApart[] = "Independent";

// Two workers run.
std::unique_ptr<World> Runs(const testing::JobBuilder& job) {
  auto world = std::make_unique<World>(job.Build());
  world->Settle();
  for (const char* name : {"j-worker-0", "j-worker-1"}) world->SetPod(name, "Running");
  world->Settle();
  return world;
}
std::unique_ptr<World> Runs(StrategyType type) {
  return Runs(Job("j").Workers(2).Strategy(type));
}

void Edit(World& world, const std::function<void(kube::Object& spec)>& change) {
  world.client.Modify(kTrainingJobKind, world.key, [&change](kube::Object& job) {
    change(job["spec"]);
    job["metadata"]["generation"] = job["metadata"]["generation"].get<int>() + 1;
  });
}
void Suspend(World& world, const std::string& strategy) {
  Edit(world, [&strategy](kube::Object& spec) {
    spec["suspend"] = true;
    spec["strategy"]["type"] = strategy;
  });
}
void Remove(World& world, const std::string& pod) {
  world.client.Remove(kube::kPodKind, {world.key.namespace_name, pod});
}

// Expects that each worker has a pod, of the second attempt.
void ExpectBothStartAgain(World& world) {
  ASSERT_EQ(world.Pods().size(), 2U);
  for (const kube::Object& pod : world.Pods()) {
    EXPECT_EQ(kube::Label(pod, api::kLabelAttempt), "1") << kube::Name(pod);
  }
  EXPECT_THAT(world.Job()->status.completed_indexes, IsEmpty());
  EXPECT_EQ(world.Job()->status.restarts, api::RestartCounts{});
}

TEST(AttemptTest, AVariantThatHasFinishedIsNotTheRunThatAnEditAsksFor) {
  const std::pair<const char*, std::function<void(World&)>> cases[] = {
      {"only its pod tells", [](World& world) { world.SetPod("j-worker-0", "Succeeded"); }},
      {"the status tells too",
       [](World& world) {
         world.SetPod("j-worker-0", "Succeeded");
         world.Settle();
       }},
      {"only the status tells",
       [](World& world) {
         world.SetPod("j-worker-0", "Succeeded");
         world.Settle();
         Remove(world, "j-worker-0");
       }},
      {"nor is its peer there",
       [](World& world) {
         world.SetPod("j-worker-0", "Succeeded");
         world.Settle();
         Remove(world, "j-worker-0");
         Remove(world, "j-worker-1");
       }},
  };
  for (const auto& [name, finish] : cases) {
    SCOPED_TRACE(name);
    const auto world = Runs(StrategyType::kIndependent);
    finish(*world);
    Suspend(*world, kTogether);
    world->Settle();
    EXPECT_EQ(world->Job()->status.state, "Suspended");
    EXPECT_THAT(world->Pods(), IsEmpty());
    Edit(*world, [](kube::Object& spec) { spec["suspend"] = false; });
    world->Settle();
    ExpectBothStartAgain(*world);
  }
}

// Suspended, edited and resumed while the operator was being replaced.
TEST(AttemptTest, NorIfNoOperatorSeesTheSuspension) {
  const auto world = Runs(StrategyType::kIndependent);
  world->SetPod("j-worker-0", "Succeeded");
  world->Settle();
  Edit(*world, [](kube::Object& spec) { spec["strategy"]["type"] = kTogether; });
  world->Settle();
  EXPECT_EQ(world->Job()->status.state, "Restarting");
  EXPECT_THAT(world->EventReasons(), Contains("StrategyChanged"));
  ExpectBothStartAgain(*world);
}

TEST(AttemptTest, AMemberThatHasFinishedIsNoVariant) {
  const auto rigid = Job("j").Workers(2).Strategy(StrategyType::kMultiWorkerMirrored);
  auto elastic = Job("j").Workers(2).RestartScope(api::RestartScope::kPod);
  elastic.With([](api::TrainingJob& job) { job.spec.elastic = api::ElasticSpec{1, 4}; });
  for (const testing::JobBuilder& job : {rigid, elastic}) {
    for (const bool is_seen : {false, true}) {
      SCOPED_TRACE(is_seen);
      const auto world = Runs(job);
      world->SetPod("j-worker-1", "Succeeded");
      world->Settle();
      const auto edit = [&world](bool suspend) {
        Edit(*world, [suspend](kube::Object& spec) {
          spec["suspend"] = suspend;
          spec["strategy"]["type"] = kApart;
          spec.erase("elastic");
          spec.erase("restartScope");
        });
        world->Settle();
      };
      if (is_seen) {
        edit(true);
        EXPECT_EQ(world->Job()->status.state, "Suspended");
      }
      edit(false);
      ExpectBothStartAgain(*world);
    }
  }
}

TEST(AttemptTest, AJobThatFinishesAsItIsSuspendedHasSucceeded) {
  const auto together = Runs(StrategyType::kMultiWorkerMirrored);
  together->SetPod("j-worker-0", "Succeeded");
  Suspend(*together, kTogether);
  together->Settle();
  EXPECT_EQ(together->Job()->status.state, "Succeeded");
}

TEST(AttemptTest, AndSoHasOneWhoseFirstPodsAreGoneByThen) {
  for (const char* strategy : {kTogether, kApart}) {
    SCOPED_TRACE(strategy);
    const auto type = strategy == std::string(kApart) ? StrategyType::kIndependent
                                                      : StrategyType::kMultiWorkerMirrored;
    const auto world =
        Runs(Job("j").Workers(2).Strategy(type).SuccessPolicy(api::SuccessPolicy::kAllWorkers));
    world->SetPod("j-worker-0", "Succeeded");
    world->Settle();
    Remove(*world, "j-worker-0");
    world->SetPod("j-worker-1", "Succeeded");
    Suspend(*world, strategy);
    world->Settle();
    EXPECT_EQ(world->Job()->status.state, "Succeeded");
  }
}

}  // namespace
}  // namespace lockstep::controller
