#include "operator/cli/ui/answers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>

#include "tests/operator/cli/ui/fake_source.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AnswersTest : public ::testing::Test {
 protected:
  HttpAnswer To(const std::string& path, const std::string& host = "127.0.0.1:80",
                const std::string& authorization = "Bearer secret", const std::string& query = "") {
    return answers_.To(
        {.path = path, .query = query, .host = host, .authorization = authorization});
  }

  FakeSource source_;
  Board board_{source_, {.look = std::chrono::minutes(10), .idle = std::chrono::minutes(10)}};
  Answers answers_{board_, "secret"};
};

TEST_F(AnswersTest, ThePageNeedsNoTokenAndWhatItShowsDoes) {
  EXPECT_EQ(200, To("/", "127.0.0.1:80", "").status);
  EXPECT_THAT(To("/").body, HasSubstr("<!doctype html>"));
  EXPECT_THAT(To("/app.js").content_type, HasSubstr("text/javascript"));
  EXPECT_EQ(200, To("/api/jobs").status);
  for (const char* token :
       {"", "Bearer ", "Bearer secre", "Bearer secret1", "secret", "bearer secret"}) {
    EXPECT_EQ(401, To("/api/jobs", "localhost:80", token).status) << token;
    EXPECT_EQ(401, To("/api/none", "localhost:80", token).status) << token;
  }
  EXPECT_EQ(404, To("/api/none").status);
  EXPECT_EQ(404, To("/api").status);
  EXPECT_EQ(404, To("/../etc/passwd").status);
}

TEST_F(AnswersTest, OnlyThisMachinesOwnNamesAreAnswered) {
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:1", "localhost", "localhost:8000", "[::1]:80", "[::1]"}) {
    EXPECT_EQ(200, To("/", host).status) << host;
  }
  for (const char* host :
       {"", ":80", "evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example",
        "evil.example:127.0.0.1", "0.0.0.0", "LOCALHOST.", "[::1].evil"}) {
    EXPECT_EQ(403, To("/", host).status) << host;
    EXPECT_EQ(403, To("/api/jobs", host).status) << host;
  }
}

TEST_F(AnswersTest, EveryAnswerForbidsWhatThePageDoesNotNeed) {
  for (const HttpAnswer& answer :
       {To("/"), To("/style.css"), To("/api/jobs"), To("/none"), To("/", "evil")}) {
    EXPECT_THAT(answer.headers, HasSubstr("default-src 'none'"));
    EXPECT_THAT(answer.headers, HasSubstr("frame-ancestors 'none'"));
    EXPECT_THAT(answer.headers, Not(HasSubstr("unsafe")));
    EXPECT_THAT(answer.headers, Not(HasSubstr("Access-Control")));
  }
  // What the policy forbids, the page does not have.
  const std::string page = To("/").body;
  EXPECT_THAT(page, Not(HasSubstr("style=")));
  EXPECT_THAT(page, Not(HasSubstr("onclick")));
  EXPECT_THAT(To("/app.js").body, Not(HasSubstr("innerHTML")));
}

TEST_F(AnswersTest, QueriesAreDecodedAndChecked) {
  EXPECT_EQ(200,
            To("/api/log", "localhost", "Bearer secret", "name=a%2Fb&after=12&replica=").status);
  for (const char* after : {"x", "-1", "1x", "99999999999999999999"}) {
    EXPECT_EQ(400,
              To("/api/log", "localhost", "Bearer secret", fmt::format("after={}", after)).status)
        << after;
  }
  for (const char* query : {"%", "=", "&&", "name=%zz", "name=%0", "name"}) {
    EXPECT_EQ(200, To("/api/job", "localhost", "Bearer secret", query).status) << query;
  }
}

TEST_F(AnswersTest, TooManyJobsAtOnceAreRefused) {
  int status = 200;
  for (int i = 0; i < 20; ++i) {
    status = To("/api/job", "localhost", "Bearer secret", fmt::format("name=job-{}", i)).status;
  }
  EXPECT_EQ(429, status);
}

TEST(TokenTest, EachIsNewAndFitsIntoAnUrl) {
  EXPECT_EQ(32U, NewToken().size());
  EXPECT_NE(NewToken(), NewToken());
  EXPECT_EQ(std::string::npos, NewToken().find_first_not_of("0123456789abcdef"));
}

}  // namespace
}  // namespace lockstep::cli
