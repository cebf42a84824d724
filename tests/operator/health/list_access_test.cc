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
  EXPECT_EQ(access.Check().message(), "pods: no answer yet; services: no answer yet");
  EXPECT_EQ(access.Ask({}), std::chrono::minutes(5));
  EXPECT_TRUE(access.Check().ok()) << access.Check();
  EXPECT_EQ(client.Count("list", "Pod"), 1);
  EXPECT_EQ(client.Count("list", "Service"), 1);
}

TEST_F(ListAccessTest, WhatIsRefusedOrUnknownIsNamedUntilItIsNot) {
  for (const absl::Status& status :
       {absl::PermissionDeniedError("not yours"), absl::NotFoundError("not yours")}) {
    Answer("Pod", status);
    EXPECT_EQ(access.Ask({}), std::chrono::seconds(10));
    EXPECT_EQ(access.Check().message(), "pods in team-a: not yours");
  }
  client.SetBefore({});
  access.Ask({});
  EXPECT_TRUE(access.Check().ok()) << access.Check();
}

TEST_F(ListAccessTest, AServerThatCannotBeReachedRefusesNothing) {
  Answer("Service", absl::UnavailableError("down"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(access.Ask({}), std::chrono::seconds(10));
    EXPECT_EQ(access.Check().message(), "services: no answer yet");
  }
  access.Ask({});
  EXPECT_TRUE(access.Check().ok()) << access.Check();
}

// A candidate that became ready would take the working operator away for good.
TEST_F(ListAccessTest, AnErrorTakesNoAnswerBack) {
  Answer("Pod", absl::PermissionDeniedError("not yours"));
  access.Ask({});
  Answer("Pod", absl::UnavailableError("down"));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(access.Ask({}), std::chrono::seconds(10));
  EXPECT_EQ(access.Check().message(), "pods in team-a: not yours");
  client.SetBefore({});
  access.Ask({});
  Answer("Pod", absl::UnavailableError("down"));
  EXPECT_EQ(access.Ask({}), std::chrono::seconds(10));
  EXPECT_TRUE(access.Check().ok()) << access.Check();
}

// The next leader serves the namespaces that are left, as the present one does.
TEST_F(ListAccessTest, AKindIsRefusedIfItIsInEveryNamespace) {
  ListAccess both(client, {{kPodKind, "a"}, {kServiceKind, "a"}, {kPodKind, "b"}});
  std::string granted = "b";
  client.SetBefore([&](const HookedClient::Call& call) {
    const bool refuses = call.kind == "Pod" && call.namespace_name != granted;
    return refuses ? absl::PermissionDeniedError("not yours") : absl::OkStatus();
  });
  EXPECT_EQ(both.Ask({}), std::chrono::minutes(5));
  EXPECT_TRUE(both.Check().ok()) << both.Check();
  granted = "neither";
  both.Ask({});
  EXPECT_EQ(both.Check().message(), "pods in a: not yours; pods in b: not yours");
}

}  // namespace
}  // namespace lockstep::health
