#include "operator/health/checks.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lockstep::health {
namespace {

TEST(ChecksTest, OneThatFailsIsNamedAndMakesItUnavailable) {
  absl::Status second;
  Checks checks;
  checks.Add("watches", [] { return absl::OkStatus(); });
  checks.Add("workers", [&] { return second; });
  EXPECT_EQ(checks.Answer().status, 200);
  EXPECT_EQ(checks.Answer().body, "[+]watches: ok\n[+]workers: ok\nok\n");
  second = absl::UnavailableError("stuck at default/mnist");
  EXPECT_EQ(checks.Answer().status, 503);
  EXPECT_EQ(checks.Answer().body, "[+]watches: ok\n[-]workers: stuck at default/mnist\nfailed\n");
}

TEST(ChecksTest, AllWhoAskWithinASecondGetOneAnswer) {
  Checks checks;
  EXPECT_EQ(checks.Answer().fresh_for, std::chrono::seconds(1));
  checks.Add("workers", [] { return absl::UnavailableError("stuck"); });
  EXPECT_EQ(checks.Answer().fresh_for, std::chrono::seconds(1));
}

}  // namespace
}  // namespace lockstep::health
