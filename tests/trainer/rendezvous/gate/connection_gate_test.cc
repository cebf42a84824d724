#include "trainer/rendezvous/gate/connection_gate.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>

#include "base/descriptor.h"
#include "tests/support/fake_clock.h"
#include "tests/support/http_request.h"

namespace lockstep::train {
namespace {

using namespace std::chrono_literals;
using lockstep::testing::FakeClock;
using lockstep::testing::TcpClient;
using ::testing::HasSubstr;

// Returns the name of the socket's peer, as gRPC formats it.
std::string PeerOf(const Descriptor& socket) {
  sockaddr_un name{};
  socklen_t length = sizeof name;
  EXPECT_EQ(::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&name), &length), 0);
  const std::size_t size = length - offsetof(sockaddr_un, sun_path) - 1;
  return "unix-abstract:" + std::string(name.sun_path + 1, size);
}

class ConnectionGateTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kMembers = 2;
  static constexpr std::size_t kPlaces = kMembers + ConnectionGate::kPlacesForStrangers;

  ConnectionGateTest() {
    auto gate = ConnectionGate::Listen("127.0.0.1:0", kMembers, clock_);
    EXPECT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    gate_->Open([this](Descriptor socket) {
      const std::lock_guard lock(mutex_);
      served_.push_back(std::move(socket));
      changed_.notify_all();
    });
  }
  std::unique_ptr<TcpClient> Call(const char* from = "127.0.0.1") {
    return std::make_unique<TcpClient>(gate_->port(), TcpClient::Options{.from = from});
  }
  // Waits for the next connection and returns the server's end of it, as a blocking socket.
  Descriptor NextServed() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 20s, [this] { return !served_.empty(); }));
    if (served_.empty()) return Descriptor();
    Descriptor socket = std::move(served_.front());
    served_.pop_front();
    ::fcntl(socket.fd(), F_SETFL, 0);
    return socket;
  }
  static std::string ReadAll(const Descriptor& socket) {
    std::string text;
    std::array<char, 65536> bytes{};
    ssize_t count = 0;
    while ((count = ::recv(socket.fd(), bytes.data(), bytes.size(), 0)) > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  static bool Send(const Descriptor& socket, const std::string& text) {
    return ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }

  FakeClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Descriptor> served_;         // guarded by mutex_
  std::unique_ptr<ConnectionGate> gate_;  // last: its thread uses the others
};

TEST_F(ConnectionGateTest, EverythingIsRelayedInBothDirections) {
  auto caller = Call();
  Descriptor server = NextServed();
  ASSERT_TRUE(caller->Send("question"));
  std::string got(8, ' ');
  ASSERT_EQ(::recv(server.fd(), got.data(), got.size(), MSG_WAITALL), 8);
  EXPECT_EQ(got, "question");
  const std::string answer(3 << 20, 'a');  // more than the sockets between them hold
  std::jthread sender([&] {
    EXPECT_TRUE(Send(server, answer));
    server.Close();
  });
  EXPECT_EQ(caller->ReadAll(), answer);
}

TEST_F(ConnectionGateTest, TheServerSeesTheEndOfStreamWhenTheCallerCloses) {
  auto caller = Call();
  const Descriptor server = NextServed();
  ASSERT_TRUE(caller->Send("last words"));
  caller = nullptr;
  EXPECT_EQ(ReadAll(server), "last words");
}

TEST_F(ConnectionGateTest, TheByteLimitAppliesToGuestsButNotToMembers) {
  const std::string much(8 << 20, 'x');
  for (const bool is_member : {true, false}) {
    auto caller = Call();
    const Descriptor server = NextServed();
    if (is_member) gate_->Prove(PeerOf(server));
    std::jthread sender([&] {
      caller->Send(much);
      caller = nullptr;
    });
    const std::string got = ReadAll(server);
    if (is_member) {
      EXPECT_EQ(got.size(), much.size());
    } else {
      EXPECT_LE(got.size(), ConnectionGate::kMostGuestBytes);
    }
  }
}

TEST_F(ConnectionGateTest, AGuestThatSendsTooMuchIsNamedInTheLog) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    auto caller = Call();
    const Descriptor server = NextServed();
    caller->Send(std::string(ConnectionGate::kMostGuestBytes + 1, 'x'));
    ReadAll(server);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("closed a connection from 127.0.0.1"));
  EXPECT_THAT(log, HasSubstr("expected at most 16384"));
  EXPECT_EQ(log.find("closed a"), log.rfind("closed a")) << "within 10 s: " << log;
}

// Each stream costs gRPC a call, although it is reset before the next one begins.
TEST_F(ConnectionGateTest, AGuestThatOpensTooManyStreamsIsDisconnected) {
  const std::string headers = std::string("\0\0\0\1", 4) + std::string(5, '\1');
  const std::string reset = std::string("\0\0\4\3", 4) + std::string(9, '\1');
  for (const bool is_member : {true, false}) {
    auto caller = Call();
    const Descriptor server = NextServed();
    if (is_member) gate_->Prove(PeerOf(server));
    std::string text(24, 'p');  // the preface
    for (std::size_t i = 0; i <= ConnectionGate::kMostGuestStreams; ++i) text += headers + reset;
    ASSERT_TRUE(caller->Send(text));
    if (is_member) {
      std::string got(text.size(), '\0');
      EXPECT_EQ(::recv(server.fd(), got.data(), got.size(), MSG_WAITALL), got.size());
    } else {
      EXPECT_EQ(caller->ReadAll(), "");
      EXPECT_LT(ReadAll(server).size(), text.size());
    }
  }
}

TEST_F(ConnectionGateTest, AGuestThatSendsTooManyFramesIsDisconnected) {
  auto caller = Call();
  const Descriptor server = NextServed();
  const std::string settings = std::string("\0\0\0\4", 4) + std::string(5, '\0');
  std::string text(24, 'p');  // the preface
  for (std::size_t i = 0; i <= ConnectionGate::kMostGuestFrames; ++i) text += settings;
  ASSERT_TRUE(caller->Send(text));
  EXPECT_EQ(caller->ReadAll(), "");
}

TEST_F(ConnectionGateTest, RepeatedConnectionsFromOneHostDoNotKeepOthersOut) {
  for (std::size_t i = 0; i < kPlaces + 20; ++i) {
    auto stranger = Call("127.0.1.1");
    if (i < kPlaces) {
      const Descriptor server = NextServed();
      stranger->Send(std::string(2 * ConnectionGate::kMostGuestBytes, 'x'));
    }
    stranger->ReadAll();                      // until the gate closes or rejects it
    clock_.Advance(i < kPlaces ? 0ms : 5ms);  // the gate pauses after a rejection
  }
  {
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(served_.empty());
  }
  auto member = Call("127.0.1.2");
  EXPECT_GE(NextServed().fd(), 0);
}

TEST_F(ConnectionGateTest, TheNumberOfGuestsIsLimitedAndTheOldestGivesWayToAnotherHost) {
  std::deque<std::unique_ptr<TcpClient>> strangers;
  std::deque<Descriptor> servers;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    strangers.push_back(Call("127.0.1.1"));
    servers.push_back(NextServed());
  }
  EXPECT_EQ(Call("127.0.1.1")->ReadAll(), "");  // rejected
  clock_.Advance(10ms);                         // the gate pauses after a rejection
  auto member = Call("127.0.1.2");
  const Descriptor server = NextServed();
  EXPECT_EQ(strangers.front()->ReadAll(), "");  // the oldest
  EXPECT_EQ(ReadAll(servers.front()), "");
  gate_->Prove(PeerOf(server));
  ASSERT_TRUE(Send(server, "welcome"));
  ::shutdown(server.fd(), SHUT_RDWR);
  EXPECT_EQ(member->ReadAll(), "welcome");
}

TEST_F(ConnectionGateTest, ThePlacesFollowTheNumberOfMembers) {
  std::deque<std::unique_ptr<TcpClient>> members;
  std::deque<Descriptor> servers;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    members.push_back(Call("127.0.1.1"));
    servers.push_back(NextServed());
  }
  gate_->SetMembers(kMembers + 1);
  members.push_back(Call("127.0.1.1"));
  servers.push_back(NextServed());
  EXPECT_GE(servers.back().fd(), 0);
  EXPECT_EQ(Call("127.0.1.1")->ReadAll(), "");  // rejected
  clock_.Advance(10ms);                         // the gate pauses after a rejection
  gate_->SetMembers(kMembers);
  gate_->Prove(PeerOf(servers.front()));  // of kMembers + 1 the others would leave a place
  EXPECT_EQ(Call("127.0.1.1")->ReadAll(), "");
}

TEST_F(ConnectionGateTest, AConnectionWithoutProofIsClosedAfterTenSeconds) {
  auto stranger = Call(), member = Call();
  const Descriptor first = NextServed(), second = NextServed();
  gate_->Prove(PeerOf(second));
  clock_.Advance(10s);
  EXPECT_EQ(stranger->ReadAll(), "");
  ASSERT_TRUE(Send(second, "welcome"));
  ::shutdown(second.fd(), SHUT_RDWR);
  EXPECT_EQ(member->ReadAll(), "welcome");
}

// A server may close connections more slowly than a stranger opens them, and may free their memory
// later still.
TEST_F(ConnectionGateTest, APlaceIsNotFreeBeforeTheServerHasClosedItsEnd) {
  const auto member = Call("127.0.1.2");
  const Descriptor members_end = NextServed();
  gate_->Prove(PeerOf(members_end));
  const auto expect_rejected = [&] {
    EXPECT_EQ(Call("127.0.1.1")->ReadAll(), "");
    // After a rejection the same pass of the gate's loop goes on accepting callers, with the same
    // free places. Bytes that a member sends now are relayed in a later pass, so their arrival
    // shows that this pass is over.
    EXPECT_TRUE(member->Send("x"));
    char byte = 0;
    EXPECT_EQ(::recv(members_end.fd(), &byte, 1, 0), 1);
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(served_.empty());
  };
  std::deque<Descriptor> servers;
  for (std::size_t i = 0; i < kPlaces; ++i) {
    const auto stranger = Call("127.0.1.1");
    servers.push_back(NextServed());
    stranger->Send(std::string(2 * ConnectionGate::kMostGuestBytes, 'x'));
    stranger->ReadAll();  // until the gate closes it
  }
  expect_rejected();
  clock_.Advance(500ms);
  expect_rejected();
  servers.clear();
  clock_.Advance(5ms);  // the gate pauses after a rejection
  auto next = Call("127.0.1.1");
  EXPECT_GE(NextServed().fd(), 0);
}

TEST_F(ConnectionGateTest, AClosedGateServesNobody) {
  gate_->Close();
  EXPECT_EQ(Call()->ReadAll(), "");
  const std::lock_guard lock(mutex_);
  EXPECT_TRUE(served_.empty());
}

}  // namespace
}  // namespace lockstep::train
