#include "operator/controller/rules/parts/guards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/observed_builder.h"

namespace lockstep::controller {
namespace {

using api::NetworkPolicy;
using api::Role;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Job;
using testing::kReady;
using testing::Seen;

testing::JobBuilder Trains(int workers = 1) {
  return Job("j").Workers(workers).Training();
}

testing::JobBuilder With(testing::JobBuilder job, NetworkPolicy policy) {
  return job.With([policy](api::TrainingJob& made) { made.spec.network_policy = policy; });
}

void BothOn(Observed& observed) {
  observed.settings.job_tokens = observed.settings.network_policies = true;
}

const testing::PodState kReadyWithBoth = [](ObservedPod& pod) {
  kReady(pod);
  pod.has_token = pod.has_network_policy = true;
};

TEST(GuardPlanTest, TheFirstPodsOfAJobWithTrainingComeAfterThem) {
  EXPECT_THAT(Seen(Trains()).With(BothOn).Plan().actions,
              ElementsAre(CreateService{}, CreateTokenSecret{}, CreateNetworkPolicy{},
                          CreatePod{Role::kWorker, 0, 0, /*has_token=*/true,
                                    /*has_network_policy=*/true}));
}

TEST(GuardPlanTest, OtherJobsHaveNeither) {
  EXPECT_THAT(Seen(Job("j").Workers(1)).With(BothOn).Plan().actions,
              ElementsAre(CreateService{}, CreatePod{Role::kWorker, 0, 0}));
}

TEST(GuardPlanTest, AJobCanAskForAPolicyOrRefuseIt) {
  EXPECT_THAT(Seen(With(Job("j").Workers(1), NetworkPolicy::kIsolated)).With(BothOn).Plan().actions,
              ElementsAre(CreateService{}, CreateNetworkPolicy{},
                          CreatePod{Role::kWorker, 0, 0, false, true}));
  EXPECT_THAT(
      Seen(With(Trains(), NetworkPolicy::kNone)).With(BothOn).Plan().actions,
      ElementsAre(CreateService{}, CreateTokenSecret{}, CreatePod{Role::kWorker, 0, 0, true}));
}

TEST(GuardPlanTest, AJobCanAskForATokenOrRefuseIt) {
  const auto with = [](testing::JobBuilder job, api::TokenMount mount) {
    return job.With([mount](api::TrainingJob& made) { made.spec.job_token = mount; });
  };
  EXPECT_THAT(
      Seen(with(Job("j").Workers(1), api::TokenMount::kMounted)).With(BothOn).Plan().actions,
      ElementsAre(CreateService{}, CreateTokenSecret{}, CreatePod{Role::kWorker, 0, 0, true}));
  EXPECT_THAT(Seen(with(Trains(), api::TokenMount::kNone)).With(BothOn).Plan().actions,
              ElementsAre(CreateService{}, CreateNetworkPolicy{},
                          CreatePod{Role::kWorker, 0, 0, false, true}));
  EXPECT_THAT(Seen(with(Job("j").Workers(1), api::TokenMount::kMounted)).Plan().actions,
              ElementsAre(CreateService{}, CreatePod{Role::kWorker, 0, 0}))
      << "the operator is told to make none";
}

TEST(GuardPlanTest, AnOperatorWithoutTheSettingsCreatesNeither) {
  EXPECT_THAT(Seen(Trains()).Plan().actions,
              ElementsAre(CreateService{}, CreatePod{Role::kWorker, 0, 0}));
}

TEST(GuardPlanTest, WithoutPodsToMakeOrOnceTheyAreThereNothingIsPlanned) {
  EXPECT_THAT(Seen(Trains()).With(BothOn).Service().Worker(0, kReadyWithBoth).Plan().actions,
              IsEmpty());
  const auto made = [](Observed& observed) {
    BothOn(observed);
    observed.has_token_secret = observed.has_network_policy = true;
  };
  EXPECT_THAT(Seen(Trains()).With(made).Plan().actions,
              ElementsAre(CreateService{}, CreatePod{Role::kWorker, 0, 0, true, true}));
}

TEST(GuardPlanTest, AReplacedPodHasWhatItsPeersHave) {
  // Those were made by an operator that knew neither, or was told to make neither.
  EXPECT_THAT(Seen(Trains(2)).With(BothOn).Service().Worker(0, kReady).Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 1, 0, false, false}));
  EXPECT_THAT(Seen(Trains(2)).Service().Worker(0, kReadyWithBoth).Plan().actions,
              ElementsAre(CreatePod{Role::kWorker, 1, 0, true, true}));
}

// After an upgrade of the operator, whose trainer is "trainer:2" now.
TEST(GuardPlanTest, AReplacedPodHasItsPeersTrainer) {
  struct Peer {
    const char* image;
    bool is_noted = true;
    PodPhase phase = PodPhase::kRunning;
    Role role = Role::kWorker;
    const char* waits_for = "";
    const char* gpu_image = nullptr;  // of the same version unless it is named
  };
  const auto image_of = [](testing::JobBuilder job, const std::vector<Peer>& peers, int attempt) {
    Observed observed = Seen(job).Build();
    observed.settings.trainer_images = {"trainer:2", "trainer:2-cuda"};
    observed.job.status.attempt = attempt;
    for (const Peer& peer : peers) {
      ObservedPod pod;
      pod.role = peer.role;
      pod.phase = peer.phase;
      pod.trainer_images = {peer.image, peer.gpu_image != nullptr
                                            ? peer.gpu_image
                                            : std::string(peer.image) + "-cuda"};
      pod.image_is_noted = peer.is_noted;
      pod.waiting_reason = peer.waits_for;
      observed.pods.push_back(pod);
    }
    const auto images = PeersImages(observed);
    if (!images) return std::string();
    return images->gpu == images->cpu + "-cuda" ? images->cpu : images->cpu + " " + images->gpu;
  };
  const auto image = [&image_of](const std::vector<Peer>& peers, int attempt = 0) {
    return image_of(Trains(4), peers, attempt);
  };
  const bool unnoted = false;
  EXPECT_EQ(image({}), "");
  EXPECT_EQ(image({{"trainer:1"}}), "trainer:1");
  EXPECT_EQ(image({{"trainer:2"}}), "");
  const auto alone = PodPhase::kRunning;
  EXPECT_EQ(image({{"trainer:2", true, alone, Role::kWorker, "", "trainer:2"}}),
            "trainer:2 trainer:2")
      << "that operator gave pods with GPUs the same image";
  EXPECT_EQ(image({{"trainer:1"}}, /*attempt=*/1), "") << "the next attempt has the operator's";
  EXPECT_EQ(image({{""}, {"trainer:1"}}), "trainer:1") << "the first names its own";
  EXPECT_EQ(image({{"trainer:1", unnoted}}), "trainer:1") << "of an earlier operator";
  const Peer chief{"trainer:1", unnoted, PodPhase::kRunning, Role::kChief};
  EXPECT_EQ(image_of(Job("j").Chief().Workers(1).Training(), {chief}, 0), "trainer:1")
      << "of another role, when the only pod of its own is replaced";
  const auto own_chief = Job("j").Chief().Workers(1).Training().PodTemplate(
      Role::kChief, testing::Template("trainer", "own:7"));
  const Peer with_own{"own:7", unnoted, PodPhase::kRunning, Role::kChief};
  EXPECT_EQ(image_of(own_chief, {with_own}, 0), "") << "the job names it for that role";
  EXPECT_EQ(image_of(own_chief, {with_own, {"trainer:1"}}, 0), "trainer:1");
  const Peer unscheduled{"trainer:1", true, PodPhase::kPending};
  const Peer stuck{"trainer:typo", true, PodPhase::kPending, Role::kWorker, "ImagePullBackOff"};
  EXPECT_EQ(image({unscheduled}), "trainer:1") << "a gang scheduler may wait for this very pod";
  EXPECT_EQ(image({stuck}), "") << "no pod can have it";
  const Peer waits_too{"trainer:typo", true, PodPhase::kPending};
  EXPECT_EQ(image({waits_too, stuck}), "") << "it will be stuck too";
  EXPECT_EQ(image({unscheduled, stuck}), "trainer:1") << "in whichever order";
  EXPECT_EQ(image({stuck, unscheduled}), "trainer:1");
  const Peer hiccup{"trainer:1", true, PodPhase::kPending, Role::kWorker, "ErrImagePull"};
  EXPECT_EQ(image({unscheduled, hiccup}), "trainer:1") << "it is pulled again";
  const Peer evicted{"trainer:typo", true, PodPhase::kFailed};
  EXPECT_EQ(image({evicted, stuck}), "") << "it never began";
  EXPECT_EQ(image({{"trainer:1"}, waits_too, stuck}), "trainer:1") << "one has run";
}

TEST(GuardPlanTest, WhatItsPeersHaveIsCreatedAgainForAReplacedPod) {
  EXPECT_THAT(
      Seen(Trains(2)).With(BothOn).Service().Worker(0, kReadyWithBoth).Plan().actions,
      ElementsAre(CreateTokenSecret{/*is_repeat=*/true}, CreateNetworkPolicy{/*is_repeat=*/true},
                  CreatePod{Role::kWorker, 1, 0, true, true}));
}

TEST(GuardPlanTest, TheNextAttemptDoesNotFollowTheOneBefore) {
  auto seen = Seen(Trains(2)).With(BothOn).Worker(0, kReady);
  seen.With([](Observed& observed) { observed.job.status.attempt = 1; });
  EXPECT_TRUE(HasToken(seen.Build()));
  EXPECT_TRUE(HasNetworkPolicy(seen.Build()));
}

}  // namespace
}  // namespace lockstep::controller
