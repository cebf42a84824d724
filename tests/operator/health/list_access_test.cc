#include "operator/health/list_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hooked_client.h"

namespace lockstep::health {
namespace {

using kube::kPodKind;
using kube::kServiceKind;
using testing::HookedClient;

struct ListAccessTest : ::testing::Test {
  HookedClient client;
  ListAccess access{client, {{kPodKind, "team-a"}, {kServiceKind, ""}}};
  void Answer(const std::string& kind, const absl::Status& status) {
    client.SetBefore([=](const HookedClient::Call& call) {
      return call.kind == kind ? status : absl::OkStatus();
    });
  }
};

TEST_F(ListAccessTest, PassesIfAllThatIsFollowedMayBeListed) {
  EXPECT_EQ(access.Check().message(), "not asked yet");
  access.Ask({});
  EXPECT_TRUE(access.Check().ok()) << access.Check();
  EXPECT_EQ(client.Count("list", "Pod"), 1);
  EXPECT_EQ(client.Count("list", "Service"), 1);
}

TEST_F(ListAccessTest, WhatIsRefusedOrUnknownIsNamedUntilItIsNot) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError("not yours"), absl::NotFoundError("not yours")}) {
    Answer("Pod", status);
    access.Ask({});
    EXPECT_EQ(access.Check().message(), "pods in team-a: not yours");
  }
  client.SetBefore({});
  access.Ask({});
  EXPECT_TRUE(access.Check().ok()) << access.Check();
}

TEST_F(ListAccessTest, AServerThatCannotBeReachedRefusesNothing) {
  Answer("Service", absl::UnavailableError("down"));
  access.Ask({});
  EXPECT_TRUE(access.Check().ok()) << access.Check();
}

}  // namespace
}  // namespace lockstep::health
