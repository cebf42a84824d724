#include "operator/controller/job_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "base/hmac.h"
#include "tests/support/fake_clock.h"
#include "tests/support/hooked_client.h"

namespace lockstep::controller {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::HookedClient;
using ::testing::SizeIs;

const kube::Key kName{"lockstep-system", "key"};

class JobTokensTest : public ::testing::Test {
 protected:
  testing::FakeClock clock;
};

void Store(HookedClient& client, const std::string& key) {
  client.Add(kube::kSecretKind,
             {{"metadata", {{"namespace", kName.namespace_name}, {"name", kName.name}}},
              {"data", {{"key", absl::Base64Escape(key)}}}});
}

TEST_F(JobTokensTest, ATokenIsTheHmacOfTheJobsUid) {
  HookedClient client;
  const std::string key(32, 'k');
  Store(client, key);
  JobTokens tokens(client, clock, kName);
  ASSERT_TRUE(tokens.Load().ok());
  EXPECT_EQ(*tokens.TextFor("a-uid"), ToHex(HmacSha256(key, "a-uid")));
  EXPECT_NE(*tokens.TextFor("a-uid"), *tokens.TextFor("b-uid"));
  // What the operator proves is what a pod reads from its file.
  EXPECT_EQ(tokens.For("a-uid").Prove("status", "nonce", ""),
            api::JobToken(*tokens.TextFor("a-uid")).Prove("status", "nonce", ""));
}

TEST_F(JobTokensTest, TheKeyIsCreatedOnceAndKept) {
  HookedClient client;
  JobTokens first(client, clock, kName), second(client, clock, kName);
  EXPECT_TRUE(absl::IsFailedPrecondition(first.TextFor("uid").status()));
  EXPECT_FALSE(first.For("uid").present());
  ASSERT_TRUE(first.Load().ok());
  ASSERT_TRUE(first.Load().ok());
  ASSERT_TRUE(second.Load().ok());
  EXPECT_EQ(*first.TextFor("uid"), *second.TextFor("uid"));
  EXPECT_EQ(client.Count("create", "Secret"), 1);
  EXPECT_EQ(client.Objects(kube::kSecretKind).at(0).at("immutable"), true);
  HookedClient elsewhere;
  JobTokens other(elsewhere, clock, kName);
  ASSERT_TRUE(other.Load().ok());
  EXPECT_NE(*first.TextFor("uid"), *other.TextFor("uid")) << "the key is random";
}

TEST_F(JobTokensTest, TwoOperatorsThatCreateTheKeyBothHaveTheFirstOnes) {
  HookedClient client;
  const std::string key(32, 'k');
  client.SetBefore([&](const HookedClient::Call& call) {
    if (call.verb != "create") return absl::OkStatus();
    client.SetBefore({});
    Store(client, key);
    return absl::OkStatus();
  });
  JobTokens slower(client, clock, kName);
  ASSERT_TRUE(slower.Load().ok());
  EXPECT_EQ(*slower.TextFor("uid"), ToHex(HmacSha256(key, "uid")));
}

TEST_F(JobTokensTest, AKeyWhoseAnswerWasLostIsReadTheNextTime) {
  HookedClient client;
  client.SetAfter([&](const HookedClient::Call&) {
    client.SetAfter({});
    return absl::UnavailableError("the answer is lost");
  });
  JobTokens tokens(client, clock, kName);
  EXPECT_TRUE(absl::IsUnavailable(tokens.Load()));
  clock.Advance(std::chrono::seconds(1));
  ASSERT_TRUE(tokens.Load().ok());
  EXPECT_THAT(client.Objects(kube::kSecretKind), SizeIs(1));
  JobTokens second(client, clock, kName);
  ASSERT_TRUE(second.Load().ok());
  EXPECT_EQ(*tokens.TextFor("uid"), *second.TextFor("uid"));
}

TEST_F(JobTokensTest, ASecretWithoutAKeyIsNamed) {
  HookedClient client;
  Store(client, "too short");
  JobTokens tokens(client, clock, kName);
  const absl::Status loaded = tokens.Load();
  EXPECT_TRUE(absl::IsInvalidArgument(loaded));
  EXPECT_THAT(std::string(loaded.message()),
              AllOf(HasSubstr("secrets lockstep-system/key: data.key: found 9 bytes, expected at "
                              "least 32"),
                    HasSubstr("its pods are not made")));
  EXPECT_FALSE(tokens.For("uid").present());
}

TEST_F(JobTokensTest, ManyJobsThatCannotHaveTheirTokensCostOneCallASecond) {
  HookedClient client;
  int calls = 0;
  client.SetBefore([&calls](const HookedClient::Call&) {
    ++calls;
    return absl::PermissionDeniedError("forbidden");
  });
  JobTokens tokens(client, clock, kName);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(absl::IsPermissionDenied(tokens.Load()));
  EXPECT_EQ(calls, 1);
  clock.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(absl::IsPermissionDenied(tokens.Load()));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lockstep::controller
