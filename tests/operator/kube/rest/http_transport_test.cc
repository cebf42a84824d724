#include "operator/kube/rest/http_transport.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/fake_http_server.h"

namespace lockstep::kube {
namespace {

using std::chrono::seconds;
using testing::FakeHttpServer;

class HttpTransportTest : public ::testing::Test {
 protected:
  void Serve(int status, std::string body) {
    server_ = std::make_unique<FakeHttpServer>(
        [status, body = std::move(body)](const FakeHttpServer::Request&,
                                         FakeHttpServer::Connection& to) {
          to.Respond(status, body);
        });
    auto transport = MakeHttpTransport({.server = server_->url()});
    ASSERT_TRUE(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
  }
  absl::StatusOr<HttpResponse> SendUnwanted() {
    HttpRequest request{"DELETE", "/x"};
    request.wants_body = false;
    return transport_->Send(request, seconds(60));
  }

  std::unique_ptr<FakeHttpServer> server_;
  std::unique_ptr<HttpTransport> transport_;
};

TEST_F(HttpTransportTest, OfManyUnwantedBodiesAtATimeLittleIsHeld) {
  Serve(200, std::string(9'000'000, 'x'));
  std::vector<absl::StatusOr<HttpResponse>> answers(48);
  std::vector<std::jthread> threads;
  for (auto& answer : answers) threads.emplace_back([&] { answer = SendUnwanted(); });
  threads.clear();
  for (const auto& answer : answers) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 200);
    EXPECT_FALSE(answer->too_long);
    EXPECT_EQ(answer->body.size(), kLongestUnwanted);
    // The text has grown in place, so it has never held more.
    EXPECT_LE(answer->body.capacity(), 2 * kLongestUnwanted);
  }
}

TEST_F(HttpTransportTest, AnUnwantedBodyMayBeLongerThanAnyThatIsRead) {
  Serve(200, std::string(33U << 20U, 'x'));
  const auto answer = SendUnwanted();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 200);
  EXPECT_FALSE(answer->too_long);
}

TEST_F(HttpTransportTest, AnUnwantedErrorIsReadAsFarAsItIsShort) {
  Serve(404, "not here");
  const auto answer = SendUnwanted();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "not here");
}

}  // namespace
}  // namespace lockstep::kube
