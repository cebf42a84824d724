#include "operator/kube/rest/http_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string_view>
#include <thread>
#include <vector>

#include "base/listener.h"
#include "tests/support/certificate_server.h"
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

TEST(HttpTransportTlsTest, AServerWithoutTlsIsToldFromOneWithAWrongCertificate) {
  const absl::StatusOr<Listener> listener = ListenAt("127.0.0.1:0", 1);
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::jthread server([&] {
    const auto await = [](const Descriptor& socket) {
      pollfd waits{socket.fd(), POLLIN, 0};
      return ::poll(&waits, 1, 60'000) == 1;
    };
    if (!await(listener->socket)) return;
    const Caller caller = Accept(*listener);
    std::array<char, 4096> hello{};
    if (!await(caller.socket) || ::recv(caller.socket.fd(), hello.data(), hello.size(), 0) <= 0) {
      return;
    }
    constexpr std::string_view kAnswer = "HTTP/1.1 400 Bad Request\r\n\r\n";
    ::send(caller.socket.fd(), kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL);
  });
  const std::string url = "https://127.0.0.1:" + std::to_string(listener->port);
  const auto transport = MakeHttpTransport({.server = url});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const absl::Status status = (*transport)->Send({"GET", "/x"}, seconds(60)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("handshake: wrong version number"));
}

// A server knows a connection by the certificate that it was opened with.
TEST(HttpTransportTlsTest, ARequestWithALaterCertificateGoesOverNoOlderConnection) {
  testing::CertificateServer server([](const std::string& /*name*/) { return 200; });
  std::atomic<bool> renewed{false};
  const testing::Identity old = testing::MakeIdentity("old"), late = testing::MakeIdentity("new");
  const auto transport =
      MakeHttpTransport({.server = server.url(),
                         .insecure_skip_tls_verify = true,
                         .tls = [&]() -> absl::StatusOr<TlsMaterial> {
                           const testing::Identity& identity = renewed ? late : old;
                           return TlsMaterial{"", identity.certificate, identity.key};
                         }});
  ASSERT_TRUE(transport.ok()) << transport.status();
  const auto send = [&](std::uint64_t certificate) {
    HttpRequest request{"GET", "/x"};
    request.certificate = certificate;
    const auto answer = (*transport)->Send(request, seconds(60));
    EXPECT_TRUE(answer.ok()) << answer.status();
  };
  const auto stream = [&](std::uint64_t certificate) {
    HttpRequest request{"GET", "/x"};
    request.certificate = certificate;
    const auto answer = (*transport)->Stream(request, seconds(60), {}, [](std::string_view) {
      return absl::OkStatus();
    });
    EXPECT_TRUE(answer.ok()) << answer.status();
  };
  send(0);
  stream(0);
  renewed = true;
  send(1);
  stream(1);
  send(0);
  EXPECT_THAT(server.names(), ::testing::ElementsAre("old", "old", "new", "new", "new"));
}

}  // namespace
}  // namespace lockstep::kube
