// Callers that do not know the job's token, and servers that do not.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

constexpr char kSecret[] = "a secret of the job";

Caller Worker(const std::string& secret = kSecret) {
  Caller caller{.who = {}, .token = api::JobToken(secret)};
  caller.who.set_job("job");
  caller.who.set_role("worker");
  caller.who.set_fingerprint("fingerprint");
  return caller;
}

int ThreadsOfThisProcess() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

// Opens a stream and reads the challenge, if there is one.
struct SilentCaller {
  explicit SilentCaller(const std::string& address)
      : stub(StubFor(address)), stream(stub->Coordinate(&context)), is_met(stream->Read(&reply)) {}
  grpc::ClientContext context;
  std::unique_ptr<proto::ParameterServer::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<proto::WorkerRequest, proto::TaskReply>> stream;
  proto::TaskReply reply;
  const bool is_met;
};

// Speaks HTTP/2, but acknowledges no settings.
class RudeConnection {
 public:
  explicit RudeConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    LOCKSTEP_CHECK(
        ::connect(socket_.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
        "cannot connect to port {}", port);
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(/*type=*/4, /*flags=*/0, /*stream=*/0, ""));
  }
  void OpenStreams(int count) {
    std::string headers = "\x83\x86";  // :method POST, :scheme http
    headers += '\x04' + Text("/lockstep.proto.ParameterServer/Coordinate");
    headers += '\x01' + Text("server");
    headers += '\0' + Text("content-type") + Text("application/grpc");
    headers += '\0' + Text("te") + Text("trailers");
    for (int i = 0; i < count; ++i) {
      Send(Frame(/*type=*/1, /*flags=*/4, next_stream_, headers));
      next_stream_ += 2;
    }
  }
  // Reads until the server has ended `most` streams, or says nothing for a second. Returns how many
  // it has ended.
  std::size_t EndedStreams(std::size_t most) {
    const timeval patience{.tv_sec = 1, .tv_usec = 0};
    ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::set<std::string> ended;
    std::string head, body;
    while (ended.size() < most && Receive(9, head)) {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(head[i]); };
      if (!Receive(std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2), body)) break;
      const bool is_reset = head[3] == 3, is_last = head[3] == 1 && (head[4] & 1) != 0;
      if (is_reset || is_last) ended.insert(head.substr(5));
    }
    return ended.size();
  }

 private:
  // RFC 7541, section 5.2; without Huffman's code.
  static std::string Text(const std::string& text) { return static_cast<char>(text.size()) + text; }
  // RFC 9113, section 4.1.
  static std::string Frame(char type, char flags, std::uint32_t stream, const std::string& body) {
    const auto byte = [](std::size_t value, int shift) {
      return static_cast<char>(value >> shift & 0xff);
    };
    std::string frame = {byte(body.size(), 16), byte(body.size(), 8), byte(body.size(), 0), type,
                         flags};
    for (const int shift : {24, 16, 8, 0}) frame += byte(stream, shift);
    return frame + body;
  }
  bool Receive(std::size_t size, std::string& bytes) {
    bytes.resize(size);
    return ::recv(socket_.fd(), bytes.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }
  void Send(const std::string& bytes) {
    ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const Descriptor socket_;
  std::uint32_t next_stream_ = 1;
};

class StrangersTest : public ::testing::Test {
 protected:
  void Serve(const IntroductionLimits& introductions, const std::string& secret = kSecret) {
    server_ = *ParameterServer::Start({.index = 0,
                                       .address = "127.0.0.1:0",
                                       .job = "job",
                                       .token = api::JobToken(secret),
                                       .tasks = {},
                                       .introductions = introductions},
                                      *shard_, clock_);
    address_ = fmt::format("127.0.0.1:{}", server_->port());
  }
  // Connects as a worker does, and returns how long that took.
  std::chrono::duration<double> Connect() const {
    const auto began = std::chrono::steady_clock::now();
    TaskLink link(address_, Worker());
    for (int i = 0; i < 400 && !link.Connect().ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_TRUE(link.Connect().ok());
    return std::chrono::steady_clock::now() - began;
  }

  const SystemClock clock_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  const std::unique_ptr<Shard> shard_ = *Shard::Create({}, *backend_);
  std::unique_ptr<ParameterServer> server_;
  std::string address_;
};

TEST_F(StrangersTest, HaveToAnswerTheirChallengeSoon) {
  Serve({.at_once = 2, .patience = std::chrono::milliseconds(300)});
  SilentCaller stranger(address_);
  ASSERT_TRUE(stranger.is_met);
  EXPECT_FALSE(stranger.stream->Read(&stranger.reply));
  EXPECT_EQ(stranger.stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StrangersTest, MakeRoomForWorkersWhenAllPlacesAreTaken) {
  Serve({.at_once = 2, .patience = std::chrono::minutes(1)});
  SilentCaller first(address_), second(address_);
  ASSERT_TRUE(first.is_met && second.is_met);
  EXPECT_FALSE(SilentCaller(address_).is_met) << "both have come just now";
  EXPECT_LT(Connect().count(), 10);
  EXPECT_FALSE(first.stream->Read(&first.reply)) << "the oldest has made room";
}

TEST_F(StrangersTest, HoldFewThreadsHoweverManyStreamsTheyOpen) {
  Serve({});
  RudeConnection connection(server_->port());
  const int before = ThreadsOfThisProcess();
  std::atomic<int> most = before;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) most = std::max(most.load(), ThreadsOfThisProcess());
  });
  connection.OpenStreams(3000);
  const double seconds = Connect().count();
  watch = {};
  EXPECT_LT(most - before, 64 + 16 + 32) << "the last 32 are for the worker's end";
  EXPECT_LT(seconds, 4) << "before strangers are late";
  RecordProperty("threads", most - before);
  RecordProperty("milliseconds", static_cast<int>(1000 * seconds));
}

TEST_F(StrangersTest, HoldOnePlaceForEachConnection) {
  Serve({.at_once = 8, .patience = std::chrono::minutes(1)});
  RudeConnection connection(server_->port());
  connection.OpenStreams(100);
  EXPECT_EQ(connection.EndedStreams(100), 99u);
}

// Such a server accepts every caller.
TEST_F(StrangersTest, AreNotTakenForServersOfTheJob) {
  Serve({}, /*secret=*/"");
  const absl::Status tasks = TaskLink(address_, Worker()).Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(tasks)) << tasks;
  EXPECT_THAT(std::string(tasks.message()),
              HasSubstr(fmt::format("ps 0 at {}: it does not prove that it knows", address_)));
  ShardGroup group({.servers = {address_},
                    .caller = Worker(),
                    .plan = {{{0, 64}}},
                    .parameters = 64,
                    .states = 1});
  const absl::Status shard = group.Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(shard)) << shard;
}

TEST_F(StrangersTest, CannotUseTheProofOfACallerAsThatOfAServer) {
  const Caller caller = Worker();
  proto::Introduction who = caller.who;
  who.set_nonce("nonce");
  who.set_proof(ProofOfIntroduction(caller.token, "challenge", who));
  EXPECT_FALSE(AcceptsServer(caller.token, "challenge", who, who.proof()));
  const std::string proof = ProofOfServer(caller.token, "challenge", who);
  EXPECT_TRUE(AcceptsServer(caller.token, "challenge", who, proof));
  EXPECT_FALSE(AcceptsServer(caller.token, "another challenge", who, proof));
  who.set_nonce("another nonce");
  EXPECT_FALSE(AcceptsServer(caller.token, "challenge", who, proof));
}

}  // namespace
}  // namespace lockstep::train
