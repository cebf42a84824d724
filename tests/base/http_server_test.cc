#include "base/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/http_request.h"
#include "tests/support/ipv6.h"
#include "tests/support/time_limit.h"

namespace lockstep {
namespace {

using lockstep::testing::Request;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FailedAccepts;
std::atomic<FailedAccepts*> failed_accepts{nullptr};

// While there is one, accept fails in this program, for lack of descriptors.
class FailedAccepts {
 public:
  FailedAccepts() { failed_accepts = this; }
  ~FailedAccepts() { End(); }
  FailedAccepts(const FailedAccepts&) = delete;
  FailedAccepts& operator=(const FailedAccepts&) = delete;

  void Add() {
    const std::lock_guard lock(mutex_);
    times_.push_back(std::chrono::steady_clock::now());
    added_.notify_one();
  }
  // Waits for so many, and returns when they were.
  std::vector<SteadyTime> Await(std::size_t count) {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [&] { return times_.size() >= count; });
    return times_;
  }
  static void End() { failed_accepts = nullptr; }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<SteadyTime> times_;
};

// How often poll has failed because of it. Below 0: poll works.
std::atomic<int> failed_polls{-1};

std::unique_ptr<HttpServer> StartPages(const std::string& address) {
  const auto well = [] { return HttpAnswer{.body = "well\n"}; };
  const auto ill = [] { return HttpAnswer{.status = 503, .body = "ill\n"}; };
  auto server = HttpServer::Start(address, {{"/well", well}, {"/ill", ill}});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

TEST(HttpServerTest, ServesEachPageWithItsStatus) {
  const auto server = StartPages("127.0.0.1:0");
  const std::string well = Request(server->port(), "GET", "/well");
  EXPECT_THAT(well, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(well, EndsWith("\r\n\r\nwell\n"));
  EXPECT_THAT(Request(server->port(), "GET", "/ill"),
              StartsWith("HTTP/1.1 503 Service Unavailable"));
  EXPECT_THAT(Request(server->port(), "GET", "/other"), HasSubstr(" 404 Not Found"));
  EXPECT_THAT(Request(server->port(), "GET", "/well/x"), HasSubstr(" 404 Not Found"));
}

TEST(HttpServerTest, HeadHasNoBodyAndNothingCanBeWritten) {
  const auto server = StartPages("127.0.0.1:0");
  const std::string head = Request(server->port(), "HEAD", "/well");
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("well")));
  EXPECT_THAT(Request(server->port(), "PUT", "/well"), Not(HasSubstr("200 OK")));
}

// Echoes what is posted below /in/.
std::unique_ptr<HttpServer> StartIntake() {
  const auto take = [](const HttpPost& post) {
    return HttpAnswer{.body = post.path + "|" + post.authorization + "|" + post.body};
  };
  auto server = HttpServer::Start("127.0.0.1:0", {{"/page", [] { return HttpAnswer{}; }}},
                                  {.prefix = "/in/", .most_bytes = 5000, .take = take});
  EXPECT_TRUE(server.ok()) << server.status();
  return *std::move(server);
}

std::string PostedOnce(const HttpServer& server, const std::vector<std::string>& parts) {
  testing::TcpClient client(server.port());
  for (const std::string& part : parts) client.Send(part);
  return client.ReadAll();
}

// On a machine with other work, a second may pass between two parts; then there is no answer.
std::string Posted(const HttpServer& server, const std::vector<std::string>& parts) {
  std::string answer = PostedOnce(server, parts);
  for (int i = 0; i < 4 && parts.size() > 1 && answer.empty(); ++i) {
    answer = PostedOnce(server, parts);
  }
  return answer;
}

TEST(HttpServerTest, WhatIsPostedIsTakenWithItsBodyHoweverItComes) {
  const auto server = StartIntake();
  const std::string head =
      "POST /in/a?b HTTP/1.1\r\nX-Authorization: no\r\nAuthorization: Bearer x\r\n";
  EXPECT_THAT(Posted(*server, {head + "Content-Length: 3\r\n\r\nabc"}),
              EndsWith("\r\n\r\n/in/a|Bearer x|abc"));
  EXPECT_THAT(Posted(*server, {head, "content-length: 3\r\n\r", "\nab", "cd"}),
              EndsWith("|Bearer x|abc"));
  const std::string large(5000, 'y');
  EXPECT_THAT(Posted(*server, {"POST /in/ HTTP/1.1\r\nContent-Length: 5000\r\n\r\n" + large}),
              EndsWith("/in/||" + large));
  EXPECT_THAT(Posted(*server, {"POST /in/ HTTP/1.1\r\nContent-Length: 0\r\n\r\n"}),
              EndsWith("/in/||"));
}

TEST(HttpServerTest, WhatCannotBeTakenIsRefusedUnread) {
  const auto server = StartIntake();
  const auto post = [&](const std::string& path, const std::string& header) {
    return Posted(*server, {"POST " + path + " HTTP/1.1\r\n" + header + "\r\n"});
  };
  EXPECT_THAT(post("/in/", ""), HasSubstr(" 411 Length Required"));
  EXPECT_THAT(post("/in/", "Transfer-Encoding: chunked\r\n"), HasSubstr(" 411 "));
  EXPECT_THAT(post("/in/", "Content-Length: -1\r\n"), HasSubstr(" 411 "));
  EXPECT_THAT(post("/in/", "Content-Length: 5001\r\n"), HasSubstr(" 413 "));
  EXPECT_THAT(post("/in/", "Content-Length: 99999999999999999999\r\n"), HasSubstr(" 411 "));
  EXPECT_THAT(post("/page", "Content-Length: 0\r\n"), HasSubstr(" 405 "));
  EXPECT_THAT(Request(server->port(), "GET", "/page"), HasSubstr(" 200 OK"));
  EXPECT_EQ(post("/in/", "X: " + std::string(9000, 'x') + "\r\n"), "") << "its head is too long";
}

TEST(HttpServerTest, SilentConnectionsKeepNobodyWaiting) {
  const auto server = StartPages("127.0.0.1:0");
  std::vector<std::unique_ptr<testing::TcpClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<testing::TcpClient>(server->port()));
    if (i % 2 == 0) silent.back()->Send("GET /well HTTP/1.1\r\n");
    if (i % 20 != 0) continue;
    const auto start = std::chrono::steady_clock::now();
    EXPECT_THAT(Request(server->port(), "GET", "/well"), HasSubstr("200 OK"));
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              testing::TimeLimit(std::chrono::seconds(10)))
        << "it waits for those that are silent, one after the other";
  }
}

TEST(HttpServerTest, ASilentConnectionIsClosedSoon) {
  const auto server = StartPages("127.0.0.1:0");
  testing::TcpClient silent(server->port()), halting(server->port());
  halting.Send("GET /well HTTP/1.1\r\n");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(halting.ReadAll(), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, testing::TimeLimit(std::chrono::seconds(10)));
}

// A server whose thread stands still in a page, so that it accepts nobody until GoOn.
class StalledServer {
 public:
  StalledServer() {
    staller_.Send("GET /stall HTTP/1.0\r\n\r\n");
    stalled_.wait(false);
  }
  ~StalledServer() { GoOn(); }
  StalledServer(const StalledServer&) = delete;
  StalledServer& operator=(const StalledServer&) = delete;

  int port() const { return server_->port(); }
  int losses() const { return losses_; }
  void GoOn() {
    go_on_ = true;
    go_on_.notify_one();
  }

 private:
  HttpAnswer Stall() {
    stalled_ = true;
    stalled_.notify_one();
    go_on_.wait(false);
    return {.body = "late\n"};
  }

  std::atomic<bool> stalled_{false}, go_on_{false};
  std::atomic<int> losses_{0};
  const std::unique_ptr<HttpServer> server_ =
      *HttpServer::Start("127.0.0.1:0",
                         {{"/stall", [this] { return Stall(); }},
                          {"/well", [] { return HttpAnswer{.body = "well\n"}; }}},
                         {.on_loss = [this] { ++losses_; }});
  testing::TcpClient staller_{server_->port(), {.from = "127.0.1.1"}};
};

// As those of the kubelet and of whatever else runs on its node.
TEST(HttpServerTest, AProbeKeepsItsPlaceHoweverManyConnectFromItsAddress) {
  StalledServer server;
  testing::TcpClient probe(server.port());
  probe.Send("GET /well HTTP/1.0\r\n\r\n");
  std::vector<std::unique_ptr<testing::TcpClient>> crowd;
  for (int i = 0; i < 15; ++i) {
    crowd.push_back(std::make_unique<testing::TcpClient>(server.port()));
  }
  server.GoOn();
  EXPECT_THAT(probe.ReadAll(), HasSubstr("200 OK"));
}

// What comes without end comes here in one go: as many connections as fit the listener's queue,
// each of an address of its own, so that none takes the place of another of its own.
TEST(HttpServerTest, AProbeIsAnsweredBetweenAcceptsHoweverManyConnect) {
  StalledServer server;
  testing::TcpClient probe(server.port(), {.from = "127.0.1.2"});
  probe.Send("GET /well HTTP/1.0\r\n\r\n");
  std::vector<std::unique_ptr<testing::TcpClient>> crowd;
  for (int i = 0; i < 128; ++i) {
    const std::string from = "127.0.2." + std::to_string(i);
    crowd.push_back(std::make_unique<testing::TcpClient>(
        server.port(), testing::TcpClient::Options{.from = from.c_str()}));
  }
  server.GoOn();
  EXPECT_THAT(probe.ReadAll(), HasSubstr("200 OK"));
}

// They send their requests at once, so that none is in the way of those that are accepted later.
TEST(HttpServerTest, WhatTheQueueMayHaveRefusedIsALoss) {
  for (const int waiting : {100, 129}) {
    StalledServer server;
    std::vector<std::unique_ptr<testing::TcpClient>> crowd;
    for (int i = 0; i < waiting; ++i) {
      crowd.push_back(std::make_unique<testing::TcpClient>(server.port()));
      crowd.back()->Send("GET /well HTTP/1.0\r\n\r\n");
    }
    server.GoOn();
    for (const auto& client : crowd) EXPECT_THAT(client->ReadAll(), HasSubstr("200 OK"));
    EXPECT_EQ(server.losses() > 0, waiting > 128) << waiting;
  }
}

// How many a server counts when it has one more than it holds.
int LossesOfOneTooMany(bool same_peer) {
  StalledServer server;
  server.GoOn();
  const int most = same_peer ? 8 : 128;
  std::vector<std::unique_ptr<testing::TcpClient>> silent;
  const auto connect = [&](int i) {
    const std::string from = same_peer ? "127.0.2.1" : "127.0.2." + std::to_string(i + 1);
    silent.push_back(std::make_unique<testing::TcpClient>(
        server.port(), testing::TcpClient::Options{.from = from.c_str()}));
  };
  for (int i = 0; i < most - 1; ++i) connect(i);
  // It is answered after the others were accepted.
  EXPECT_THAT(Request(server.port(), "GET", "/well"), HasSubstr("200 OK"));
  EXPECT_EQ(server.losses(), 0);
  connect(most - 1);
  connect(most);
  EXPECT_THAT(Request(server.port(), "GET", "/well"), HasSubstr("200 OK"));
  return server.losses();
}

// Whoever is silent for a second is closed, which makes room and is no loss: a second may pass
// before the last one comes, on a machine with other work.
TEST(HttpServerTest, AConnectionThatMakesRoomForAnotherIsALoss) {
  for (const bool same_peer : {true, false}) {
    EXPECT_TRUE(testing::Eventually([&] { return LossesOfOneTooMany(same_peer) > 0; }))
        << same_peer;
  }
}

TEST(HttpServerTest, APageThatStaysFreshIsMadeOnceForAll) {
  std::atomic<int> made{0};
  const auto costly = [&] {
    return HttpAnswer{.body = std::to_string(++made), .fresh_for = std::chrono::hours(1)};
  };
  const auto cheap = [&] { return HttpAnswer{.body = std::to_string(++made)}; };
  auto server = HttpServer::Start("127.0.0.1:0", {{"/costly", costly}, {"/cheap", cheap}});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Request(port, "GET", "/costly"), EndsWith("\r\n\r\n1"));
    EXPECT_THAT(Request(port, "HEAD", "/costly"), EndsWith("\r\n\r\n"));
  }
  EXPECT_THAT(Request(port, "GET", "/cheap"), EndsWith("\r\n\r\n2"));
  EXPECT_THAT(Request(port, "GET", "/cheap"), EndsWith("\r\n\r\n3"));
}

TEST(HttpServerTest, AResponderGetsWhatIsAskedForAndByWhom) {
  const auto tell = [](const HttpGet& get) {
    return HttpAnswer{.status = 403,
                      .body = get.path + '|' + get.query + '|' + get.host + '|' + get.authorization,
                      .headers = "Referrer-Policy: no-referrer\r\n"};
  };
  const auto server = HttpServer::StartWith("127.0.0.1:0", tell);
  ASSERT_TRUE(server.ok()) << server.status();
  lockstep::testing::TcpClient client((*server)->port());
  ASSERT_TRUE(client.Send(
      "GET /a/b?c=d?e HTTP/1.1\r\nhost: 127.0.0.1:80\r\nAuthorization: Bearer x\r\n\r\n"));
  const std::string answer = client.ReadAll();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(answer, HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"));
  EXPECT_THAT(answer, EndsWith("\r\n\r\n/a/b|c=d?e|127.0.0.1:80|Bearer x"));
  EXPECT_THAT(Request((*server)->port(), "HEAD", "/"), EndsWith("\r\n\r\n"));
  EXPECT_THAT(Request((*server)->port(), "GET", "/"), EndsWith("\r\n\r\n/|||"));
  EXPECT_THAT(Request((*server)->port(), "POST", "/"), HasSubstr(" 405 Method Not Allowed"));
}

TEST(HttpServerTest, WithoutDescriptorsItRestsAndServesWhenThereAreSomeAgain) {
  FailedAccepts failed;
  const auto server = StartPages("127.0.0.1:0");
  testing::TcpClient caller(server->port());
  const std::vector<SteadyTime> times = failed.Await(4);
  for (std::size_t i = 1; i < times.size(); ++i) {
    EXPECT_GE(times[i] - times[i - 1], std::chrono::milliseconds(100)) << "it asks all the time";
  }
  failed.End();
  ASSERT_TRUE(caller.Send("GET /well HTTP/1.1\r\n\r\n"));
  EXPECT_THAT(caller.ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServerTest, AServerThatCannotWaitForConnectionsSaysThatItHasEnded) {
  auto server = StartPages("127.0.0.1:0");
  const int port = server->port();
  ::testing::internal::CaptureStderr();
  failed_polls = 0;
  const testing::TcpClient caller(port);  // ends a poll that has begun before
  EXPECT_TRUE(testing::Eventually([] { return failed_polls > 0; }));
  failed_polls = -1;
  server.reset();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("an HTTP server has ended"));
  EXPECT_THAT(log, HasSubstr("\"port\":" + std::to_string(port)));
}

TEST(HttpServerTest, ARequestWithoutEndIsCutOff) {
  const auto server = StartPages("127.0.0.1:0");
  testing::TcpClient client(server->port());
  for (int i = 0; i < 20 && client.Send(std::string(1000, 'x')); ++i) continue;
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_THAT(Request(server->port(), "GET", "/well?x=1"), HasSubstr("200 OK"));
}

TEST(HttpServerTest, WithoutAHostAllAddressesOfIpv4AreServed) {
  const auto server = StartPages(":0");
  EXPECT_THAT(Request(server->port(), "GET", "/well"), HasSubstr("200 OK"));
}

TEST(HttpServerTest, WithoutAHostAllAddressesAreServedOfBothFamilies) {
  if (!lockstep::testing::HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  for (const char* address : {":0", "[::]:0"}) {
    const auto server = StartPages(address);
    for (const bool ipv6 : {false, true}) {
      EXPECT_THAT(Request(server->port(), "GET", "/well", ipv6), HasSubstr("200 OK")) << address;
    }
  }
}

TEST(HttpServerTest, ATakenPortIsNamed) {
  const auto first = StartPages("127.0.0.1:0");
  const std::string address = "127.0.0.1:" + std::to_string(first->port());
  const auto second = HttpServer::Start(address, {});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(address));
}

TEST(BindAddressTest, WhatIsNoneIsShown) {
  for (const char* good : {":8080", "0.0.0.0:0", "localhost:65535", "[::1]:80"}) {
    EXPECT_TRUE(CheckBindAddress(good).ok()) << good;
  }
  for (const char* bad : {"", "8080", ":", ":x", ":80x", ":65536", ":-1", "::1:80", "host"}) {
    const absl::Status status = CheckBindAddress(bad);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr('"' + std::string(bad) + '"'));
  }
}

}  // namespace
}  // namespace lockstep

// Replaces the C library's poll() for this program.
extern "C" __attribute__((visibility("default"))) int poll(pollfd* fds, nfds_t count, int timeout) {
  if (lockstep::failed_polls >= 0) {
    ++lockstep::failed_polls;
    errno = EINVAL;
    return -1;
  }
  const timespec left{.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1'000'000L};
  return ::ppoll(fds, count, timeout < 0 ? nullptr : &left, nullptr);
}

// Replaces the C library's accept4() for this program.
extern "C" __attribute__((visibility("default"))) int accept4(int socket, sockaddr* address,
                                                              socklen_t* size, int flags) {
  if (lockstep::FailedAccepts* failed = lockstep::failed_accepts) {
    failed->Add();
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_accept4, socket, address, size, flags));
}
