#include "operator/cli/ui/job_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/operator/cli/fake_cluster.h"
#include "tests/support/builders.h"

namespace lockstep::cli {
namespace {

JobLook LookAtRanks(int count) {
  JobLook look;
  for (int i = 0; i < count; ++i) {
    RankTimes rank;
    rank.rank = i;
    rank.replica = fmt::format("worker-{}", i);
    rank.seconds = 1;
    rank.by_phase[kCommunication] = 0.5;
    look.seen.top.times.ranks.push_back(rank);
    look.seen.top.unread.push_back({rank.replica, absl::UnavailableError("refused")});
  }
  return look;
}

TEST(JobJsonTest, OfManyRanksAPageGetsTheStragglersAndTheNumberOfTheOthers) {
  JobLook look = LookAtRanks(10'000);
  look.seen.top.times.ranks[7'000].slow = 0.5;
  const auto top = LookJson(look, Curve()).at("top");
  EXPECT_EQ(200U, top.at("ranks").size());
  EXPECT_EQ(9'800, top.at("ranks_omitted"));
  EXPECT_EQ(7'000, top.at("ranks").back().at("rank"));
  EXPECT_EQ(3U, top.at("unread").size());
  EXPECT_EQ(9'997, top.at("unread_omitted"));
}

TEST(JobJsonTest, OfManyReplicasAPageGetsAllNamesSinceEachLogCanBeChosen) {
  JobLook look;
  look.facts.job = lockstep::testing::Job("j").Workers(201).Training().Build();
  for (int i = 0; i < 201; ++i) {
    look.facts.pods.push_back(
        testing::TrainerPod("worker", i, {{"state", {{"running", kube::Object::object()}}}}));
  }
  const auto replicas = LookJson(look, Curve()).at("replicas");
  EXPECT_TRUE(replicas.at("rows").empty());
  EXPECT_EQ(201, replicas.at("running"));
  ASSERT_EQ(201U, replicas.at("names").size());
  EXPECT_EQ("worker-0", replicas.at("names").front());
  EXPECT_EQ("worker-200", replicas.at("names").back());
}

TEST(JobJsonTest, OfAFewRanksNoneIsLeftOut) {
  const auto top = LookJson(LookAtRanks(2), Curve()).at("top");
  EXPECT_EQ(2U, top.at("ranks").size());
  EXPECT_EQ(0, top.at("ranks_omitted"));
  EXPECT_EQ(0, top.at("unread_omitted"));
}

}  // namespace
}  // namespace lockstep::cli
