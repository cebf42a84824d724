#include "api/v1/job_token.h"

#include <gtest/gtest.h>

namespace lockstep::api {
namespace {

const JobToken kToken("0123456789abcdef");

TEST(JobTokenTest, AProofIsGoodForOnePurposeNonceAndContent) {
  const std::string proof = kToken.Prove(kProofOfJoin, "nonce", "content");
  EXPECT_EQ(proof.size(), 32u);
  EXPECT_TRUE(kToken.Accepts(kProofOfJoin, "nonce", "content", proof));
  EXPECT_FALSE(kToken.Accepts(kProofOfStore, "nonce", "content", proof));
  EXPECT_FALSE(kToken.Accepts(kProofOfJoin, "nonce2", "content", proof));
  EXPECT_FALSE(kToken.Accepts(kProofOfJoin, "noncec", "ontent", proof));
  EXPECT_FALSE(kToken.Accepts(kProofOfJoin, "nonce", "content2", proof));
  EXPECT_FALSE(kToken.Accepts(kProofOfJoin, "nonce", "content", ""));
  EXPECT_FALSE(JobToken("0123456789abcdeF").Accepts(kProofOfJoin, "nonce", "content", proof));
}

TEST(JobTokenTest, WithoutATokenWhoeverCallsIsBelieved) {
  EXPECT_FALSE(JobToken().present());
  EXPECT_EQ(JobToken().Prove(kProofOfJoin, "nonce", ""), "");
  EXPECT_TRUE(JobToken().Accepts(kProofOfJoin, "nonce", "", "anything"));
}

TEST(JobTokenTest, WhatACallOfTheStoreIsAboutCannotBeShifted) {
  EXPECT_NE(PutProofContent(1, "ab", "c"), PutProofContent(1, "a", "bc"));
  EXPECT_NE(PutProofContent(1, "a", ""), PutProofContent(2, "a", ""));
  EXPECT_NE(PutProofContent(1, "a", ""), GetProofContent(1, {"a"}, 0, 0));
  EXPECT_NE(GetProofContent(1, {"a", "b"}, 0, 0), GetProofContent(1, {"ab"}, 0, 0));
  EXPECT_NE(GetProofContent(1, {"a1 b"}, 0, 0), GetProofContent(1, {"a", "b"}, 0, 0));
  EXPECT_NE(GetProofContent(1, {"a"}, 1, 0), GetProofContent(1, {"a"}, 0, 1));
  EXPECT_NE(GetProofContent(1, {"a"}, 0, 0), GetProofContent(2, {"a"}, 0, 0));
}

}  // namespace
}  // namespace lockstep::api
