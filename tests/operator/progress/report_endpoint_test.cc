#include "operator/progress/report_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/http_request.h"

namespace lockstep::progress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const api::JobToken kToken("0123456789abcdef");
constexpr char kStep7[] = R"({"trainerStatus":{"metrics":[{"name":"step","value":"7"}]}})";

class ReportEndpointTest : public ::testing::Test {
 protected:
  HttpAnswer Post(const std::string& path, const std::string& authorization,
                  const std::string& body = kStep7) {
    return endpoint_.Take({path, authorization, body});
  }
  std::optional<api::Progress> Latest() { return reports_.Of("u-1", {2}).latest; }

  const std::string path_ = controller::ReportPath("ml", "mnist", 2);
  const std::string bearer_ = "Bearer " + kToken.ReportBearer();
  bool knows_jobs_ = true;
  testing::FakeClock clock_;
  controller::ProgressReports reports_;
  std::vector<std::string> told_;
  const ReportEndpoint endpoint_{
      reports_,
      clock_,
      {.knows_jobs = [this](const std::string& space) { return knows_jobs_ && space == "ml"; },
       .find = [](const std::string& space,
                  const std::string& name) -> std::optional<ReportingJob> {
         if (space != "ml" || name != "mnist") return std::nullopt;
         return ReportingJob{"u-1", 2, kToken, api::Progress{.test_loss = 0.25}};
       },
       .on_report =
           [this](const std::string& space, const std::string& name, bool at_once) {
             told_.push_back(space + "/" + name + (at_once ? " at once" : ""));
           }}};
};

TEST_F(ReportEndpointTest, AReportOfTheJobIsTaken) {
  EXPECT_EQ(Post(path_, bearer_).status, 200);
  EXPECT_EQ(Latest()->step, 7);
  EXPECT_EQ(Latest()->update_time, clock_.Now());
  EXPECT_EQ(Latest()->test_loss, 0.25) << "as its status says";
  EXPECT_THAT(told_, ElementsAre("ml/mnist"));
}

TEST_F(ReportEndpointTest, AJobWhoseProgramIsDoneIsLookedAtAtOnce) {
  EXPECT_EQ(Post(path_, bearer_, R"({"trainerStatus":{"progressPercentage":99}})").status, 200);
  EXPECT_EQ(Post(path_, bearer_, R"({"trainerStatus":{"progressPercentage":100}})").status, 200);
  EXPECT_THAT(told_, ElementsAre("ml/mnist", "ml/mnist at once"));
}

// The pods of the attempt before report until their grace has passed.
TEST_F(ReportEndpointTest, AReportOfAnotherAttemptTellsNothing) {
  for (int i = 0; i < 2 * controller::ProgressReports::kBurst; ++i) {
    EXPECT_EQ(Post(controller::ReportPath("ml", "mnist", 1), bearer_).status, 200);
    EXPECT_EQ(Post(controller::ReportPath("ml", "mnist", 3), bearer_).status, 200);
  }
  EXPECT_FALSE(Latest());
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_EQ(Post(controller::ReportPath("ml", "mnist", 1), "Bearer x").status, 401);
  EXPECT_EQ(Post(path_, bearer_).status, 200) << "those counted for nothing here either";
  EXPECT_EQ(Latest()->step, 7);
}

TEST_F(ReportEndpointTest, WhoeverHasNotTheJobsBearerIsRefusedAndLearnsOfNoJob) {
  const std::string text = Post(controller::ReportPath("ml", "other", 2), bearer_).body;
  for (const std::string& authorization :
       {std::string(), std::string("Bearer "), std::string("Bearer 0123456789abcdef"),
        kToken.ReportBearer(), "bearer " + kToken.ReportBearer(), bearer_ + "0",
        "Bearer " + api::JobToken("fedcba9876543210").ReportBearer()}) {
    const HttpAnswer answer = Post(path_, authorization);
    EXPECT_EQ(answer.status, 401) << authorization;
    EXPECT_EQ(answer.body, text);
  }
  EXPECT_FALSE(Latest());
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(ReportEndpointTest, OtherPathsAreNone) {
  for (const char* path : {"/", "/apis/training.lockstep.dev/v1/namespaces/",
                           "/apis/training.lockstep.dev/v1/namespaces/ml",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/trainingjobs/mnist",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/trainingjobs/status",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/trainingjobs/mnist/status",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/trainingjobs/mnist/"
                           "attempts/02/status",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/trainingjobs/mnist/"
                           "attempts/99999999999/status",
                           "/apis/training.lockstep.dev/v1/namespaces/ml/pods/mnist/attempts/2/"
                           "status"}) {
    EXPECT_EQ(Post(path, bearer_).status, 404) << path;
  }
}

TEST_F(ReportEndpointTest, AnOperatorThatCannotTellAnswersAllAlikeAndRefusesNobodyForGood) {
  knows_jobs_ = false;
  const std::string text = Post(path_, bearer_).body;
  for (const std::string& path : {path_, controller::ReportPath("ml", "other", 2)}) {
    for (const std::string& authorization : {bearer_, std::string("Bearer ")}) {
      EXPECT_EQ(Post(path, authorization).status, 503);
      EXPECT_EQ(Post(path, authorization).body, text);
    }
  }
  EXPECT_FALSE(Latest());
}

TEST_F(ReportEndpointTest, AJobThatReportsTooOftenIsToldSoBeforeItsReportIsRead) {
  for (int i = 0; i < controller::ProgressReports::kBurst; ++i) {
    EXPECT_EQ(Post(path_, bearer_).status, 200);
  }
  EXPECT_EQ(Post(path_, bearer_, "no JSON").status, 429);
  EXPECT_EQ(told_.size(), static_cast<std::size_t>(controller::ProgressReports::kBurst));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(Post(path_, bearer_).status, 200);
}

TEST_F(ReportEndpointTest, AFaultIsToldInShortAndWithoutControlCharacters) {
  const std::string junk(10'000, 'x');
  const HttpAnswer answer =
      Post(path_, bearer_, "{\"trainerStatus\":{\"metrics\":\"\\u001b[2J" + junk + "\"}}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("trainerStatus.metrics"));
  EXPECT_THAT(answer.body, Not(HasSubstr("\x1b")));
  EXPECT_LT(answer.body.size(), 600U);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(ReportEndpointTest, ItIsServedOverHttp) {
  const auto server = HttpServer::Start("127.0.0.1:0", {}, endpoint_.Intake());
  ASSERT_TRUE(server.ok()) << server.status();
  const auto post = [&](const std::string& body, const std::string& authorization) {
    testing::TcpClient client((*server)->port());
    client.Send("POST " + path_ + " HTTP/1.1\r\nHost: x\r\naUTHORIZATION:  " + authorization +
                " \r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return client.ReadAll();
  };
  EXPECT_THAT(post(kStep7, bearer_), StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(post(kStep7, "Bearer x"), StartsWith("HTTP/1.1 401 Unauthorized\r\n"));
  EXPECT_THAT(post(std::string(ReportEndpoint::kMostBytes + 1, ' '), bearer_),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(Latest()->step, 7);
}

TEST_F(ReportEndpointTest, WhatTheServerMayHaveLostIsNoted) {
  clock_.Advance(std::chrono::seconds(7));
  endpoint_.Intake().on_loss();
  EXPECT_EQ(reports_.Of("u-1", {2}).last_loss, clock_.SteadyNow());
}

}  // namespace
}  // namespace lockstep::progress
