// Callers that do not know the job's token, and servers that do not.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/descriptor.h"
#include "base/listener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/ipv6.h"
#include "tests/support/job_secret.h"
#include "tests/support/time_limit.h"
#include "trainer/backend/reference/reference.h"
#include "trainer/strategy/parameter_server/parameter_server.h"
#include "trainer/strategy/parameter_server/shard_group.h"
#include "trainer/strategy/parameter_server/task_link.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// How long a stranger keeps its place at least, however many others come; see guest_list.h.
constexpr auto kLeastStay = std::chrono::milliseconds(500);

Caller Worker(const std::string& secret = testing::kJobSecret) {
  Caller caller{.who = {}, .token = api::JobToken(secret)};
  caller.who.set_job("job");
  caller.who.set_role("worker");
  caller.who.set_fingerprint("fingerprint");
  return caller;
}

ShardGroupOptions Group(const Caller& caller, std::vector<std::string> servers) {
  ShardGroupOptions options{.servers = std::move(servers), .caller = caller, .states = 1};
  options.plan.resize(options.servers.size());
  return options;
}

int ThreadsOfThisProcess() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

// "[fe80::1%eth0]", of an interface of this machine that has such an address; empty if none has.
std::string LinkLocalHost() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  std::string host;
  for (const ifaddrs* at = first; at != nullptr && host.empty(); at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET6) continue;
    const auto& address = reinterpret_cast<const sockaddr_in6&>(*at->ifa_addr);
    std::array<char, INET6_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) {
      host = fmt::format("[{}%{}]", text.data(), at->ifa_name);
    }
  }
  ::freeifaddrs(first);
  return host;
}

// Opens a stream and reads the challenge, if there is one.
struct SilentCaller {
  explicit SilentCaller(const std::string& address)
      : stub(proto::ParameterServer::NewStub(ChannelTo(address))),
        stream(stub->Coordinate(&context)),
        is_met(stream->Read(&reply)) {}
  grpc::ClientContext context;
  std::unique_ptr<proto::ParameterServer::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<proto::WorkerRequest, proto::TaskReply>> stream;
  proto::TaskReply reply;
  const bool is_met;
};

// Speaks HTTP/2, but acknowledges no settings, and pings only while it waits.
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
  void OpenStreams(int count, const std::string& method = "Coordinate") {
    std::string headers = "\x83\x86";  // :method POST, :scheme http
    headers += '\x04' + Text("/lockstep.proto.ParameterServer/" + method);
    headers += '\x01' + Text("server");
    headers += '\0' + Text("content-type") + Text("application/grpc");
    headers += '\0' + Text("te") + Text("trailers");
    for (int i = 0; i < count; ++i) {
      Send(Frame(/*type=*/1, /*flags=*/4, next_stream_, headers));
      next_stream_ += 2;
    }
  }
  void Send(const std::string& bytes) {
    ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // Waits until the server has sent its settings.
  void Meet() {
    while (received_.empty() && Receive()) continue;
  }
  // Waits until the server closes the connection. Answers its pings, so that it has no other reason
  // to do so than the gate's.
  void WaitUntilCut() {
    do {
      while (TakePing()) Send(Frame(/*type=*/6, /*flags=*/1, /*stream=*/0, std::string(8, '\0')));
    } while (Receive());
  }
  // Waits until the server pings the connection, which it does after 2 s, or closes it. Returns
  // whether it has pinged.
  bool Stays() {
    while (!TakePing()) {
      if (!Receive()) return false;
    }
    return true;
  }

 private:
  // Returns false once the connection is closed.
  bool Receive() {
    std::array<char, 4096> bytes;
    const ssize_t count = ::recv(socket_.fd(), bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }
  // RFC 7541, section 5.2; without Huffman's code.
  static std::string Text(const std::string& text) { return static_cast<char>(text.size()) + text; }
  // Takes what has been received up to a ping, if there is one.
  bool TakePing() {
    constexpr std::size_t kHeader = 9;
    constexpr char kPing = 6;
    while (received_.size() >= kHeader) {
      std::size_t body = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        body = body << 8 | static_cast<unsigned char>(received_[i]);
      }
      if (received_.size() < kHeader + body) return false;
      const bool is_ping = received_[3] == kPing;
      received_.erase(0, kHeader + body);
      if (is_ping) return true;
    }
    return false;
  }
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

  const Descriptor socket_;
  std::string received_;
  std::uint32_t next_stream_ = 1;
};

class StrangersTest : public ::testing::Test {
 protected:
  void Serve(const CallerLimits& callers, const std::string& secret = testing::kJobSecret,
             const std::string& host = "127.0.0.1") {
    server_ = *ParameterServer::Start({.index = 0,
                                       .address = host + ":0",
                                       .job = "job",
                                       .token = api::JobToken(secret),
                                       .tasks = {},
                                       .callers = callers},
                                      *shard_, *strangers_clock_);
    address_ = fmt::format("{}:{}", host, server_->port());
  }
  // Connects as a worker does, who comes again if it is turned away.
  static void Connect(TaskLink& link) {
    for (int i = 0; i < 400 && !link.Connect().ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const absl::Status connected = link.Connect();
    EXPECT_TRUE(connected.ok()) << connected;
  }
  // Checks that a worker's connection stays when the time of strangers is over.
  void ExpectToStay() {
    TaskLink link(address_, Worker());
    Connect(link);
    SilentCaller later(address_);
    ASSERT_TRUE(later.is_met);
    clock_.Advance(kPatience);
    EXPECT_FALSE(later.stream->Read(&later.reply));
    EXPECT_TRUE(link.Next(proto::Next()).ok());
  }

  static constexpr auto kPatience = std::chrono::seconds(1);

  const SystemClock system_clock_;
  lockstep::testing::FakeClock clock_;
  const Clock* strangers_clock_ = &clock_;
  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  const std::unique_ptr<Shard> shard_ = *Shard::Create({}, *backend_);
  std::unique_ptr<ParameterServer> server_;
  std::string address_;
};

TEST_F(StrangersTest, HaveToAnswerTheirChallengeSoon) {
  Serve({.patience = kPatience});
  SilentCaller stranger(address_);
  ASSERT_TRUE(stranger.is_met);
  RudeConnection idle(server_->port());
  idle.Meet();
  clock_.Advance(kPatience);
  EXPECT_FALSE(stranger.stream->Read(&stranger.reply));
  idle.WaitUntilCut();
}

TEST_F(StrangersTest, MayOpenOneStreamBeforeTheirProof) {
  Serve({.patience = std::chrono::minutes(1)});
  RudeConnection one(server_->port());
  one.OpenStreams(1);
  EXPECT_TRUE(one.Stays());
  RudeConnection two(server_->port());
  two.OpenStreams(2);
  two.WaitUntilCut();
}

// gRPC answers calls of methods that do not exist itself.
TEST_F(StrangersTest, MaySendSixteenKibibytesBeforeTheirProof) {
  Serve({.patience = std::chrono::minutes(1)});
  RudeConnection connection(server_->port());
  connection.OpenStreams(10, "Unknown");
  EXPECT_TRUE(connection.Stays());
  ::testing::internal::CaptureStderr();
  connection.OpenStreams(300, "Unknown");
  connection.WaitUntilCut();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("sent more than 16 KiB"));
}

TEST_F(StrangersTest, MakeRoomForWorkersWhenAllPlacesAreTaken) {
  Serve({.at_once = 2, .patience = std::chrono::minutes(1)});
  SilentCaller first(address_), second(address_);
  ASSERT_TRUE(first.is_met && second.is_met);
  EXPECT_FALSE(SilentCaller(address_).is_met) << "it has taken the place of one that has just come";
  clock_.Advance(kLeastStay);
  TaskLink worker(address_, Worker());
  Connect(worker);
  EXPECT_FALSE(first.stream->Read(&first.reply)) << "the oldest has made room";
}

TEST_F(StrangersTest, HoldFewThreadsHoweverManyStreamsTheyOpen) {
  strangers_clock_ = &system_clock_;  // the worker has the stranger's address, so it has to wait
  Serve({});
  RudeConnection connection(server_->port());
  const int before = ThreadsOfThisProcess();
  std::atomic<int> most = before;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) most = std::max(most.load(), ThreadsOfThisProcess());
  });
  ::testing::internal::CaptureStderr();
  connection.OpenStreams(3000);
  TaskLink worker(address_, Worker());
  Connect(worker);
  watch = {};
  EXPECT_LT(most - before, 64 + 16 + 32) << "the last 32 are for the worker's end";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("closed the connection of"))
      << "so the worker had to wait until the stranger was late";
  RecordProperty("threads", most - before);
}

// gRPC names connections by their addresses.
TEST_F(StrangersTest, AreToldFromWorkersWithIpv6AddressesToo) {
  if (!lockstep::testing::HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  Serve({.patience = kPatience}, testing::kJobSecret, "[::1]");
  ExpectToStay();
}

TEST_F(StrangersTest, AreToldFromWorkersWithLinkLocalAddressesToo) {
  const std::string host = LinkLocalHost();
  if (host.empty()) GTEST_SKIP() << "no link-local IPv6 address here";
  Serve({.patience = kPatience}, testing::kJobSecret, host);
  ExpectToStay();
}

TEST_F(StrangersTest, AreToldFromWorkersOfAServerThatListensAtAllAddresses) {
  Serve({.patience = kPatience}, testing::kJobSecret, "");
  address_ = fmt::format("127.0.0.1:{}", server_->port());
  ExpectToStay();
}

// Such a server accepts every caller.
TEST_F(StrangersTest, AreNotTakenForServersOfTheJob) {
  Serve({}, /*secret=*/"");
  const absl::Status tasks = TaskLink(address_, Worker()).Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(tasks)) << tasks;
  EXPECT_THAT(std::string(tasks.message()),
              HasSubstr(fmt::format("ps 0 at {}: it does not prove that it knows", address_)));
  ShardGroup group(Group(Worker(), {address_}));
  const absl::Status shard = group.Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(shard)) << shard;
}

// Takes calls, and says nothing but perhaps a challenge. Hangs up on all callers once it has
// `patience` of them at a time.
class SilentServer final : private proto::ParameterServer::Service {
 public:
  explicit SilentServer(bool challenges, int patience = std::numeric_limits<int>::max())
      : challenges_(challenges), patience_(patience) {
    grpc::ServerBuilder builder;
    SetServerOptions(builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~SilentServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  bool has_hung_up() const { return hangs_up_; }
  // The indices of the servers for which its callers have taken it.
  std::set<int> taken_for() {
    const std::lock_guard lock(mutex_);
    return taken_for_;
  }

 private:
  template <typename Reply, typename Request, typename Stream>
  grpc::Status Stay(const grpc::ServerContext& context, Stream& stream) {
    if (++callers_ >= patience_) hangs_up_ = true;
    Reply reply;
    reply.mutable_challenge()->set_nonce("nonce");
    Request request;
    if (challenges_ && stream.Write(reply) && stream.Read(&request)) {
      const std::lock_guard lock(mutex_);
      taken_for_.insert(request.introduction().server());
    }
    while (!context.IsCancelled() && !hangs_up_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    --callers_;
    return grpc::Status::CANCELLED;
  }
  grpc::Status Exchange(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::ShardReply, proto::ShardRequest>* stream) override {
    return Stay<proto::ShardReply, proto::ShardRequest>(*context, *stream);
  }
  grpc::Status Coordinate(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::TaskReply, proto::WorkerRequest>* stream) override {
    return Stay<proto::TaskReply, proto::WorkerRequest>(*context, *stream);
  }

  const bool challenges_;
  const int patience_;
  std::atomic<int> callers_ = 0;
  std::atomic<bool> hangs_up_ = false;
  std::mutex mutex_;
  std::set<int> taken_for_;  // guarded by mutex_
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StrangersTest, ThatStaySilentDoNotHoldAWorker) {
  for (const bool challenges : {false, true}) {
    const SilentServer server(challenges);
    Caller worker = Worker();
    worker.patience = std::chrono::milliseconds(300);
    const std::string expected =
        fmt::format("ps 0 at {}: it has not answered within 0.3 s", server.address());
    const absl::Status tasks = TaskLink(server.address(), worker).Connect();
    EXPECT_TRUE(absl::IsUnavailable(tasks)) << tasks;
    EXPECT_THAT(std::string(tasks.message()), HasSubstr(expected));
    ShardGroup group(Group(worker, {server.address()}));
    const absl::Status shard = group.Connect();
    EXPECT_TRUE(absl::IsUnavailable(shard)) << shard;
    EXPECT_THAT(std::string(shard.message()), HasSubstr(expected));
  }
}

TEST_F(StrangersTest, ThatStaySilentDoNotHoldUpEachOther) {
  constexpr int kServers = 8;
  const SilentServer stranger(/*challenges=*/false, /*patience=*/kServers);
  Caller worker = Worker();
  worker.patience = std::chrono::seconds(30);
  ShardGroup group(Group(worker, std::vector(kServers, stranger.address())));
  const absl::Status met = group.Connect();
  EXPECT_TRUE(absl::IsUnavailable(met)) << met;
  EXPECT_TRUE(stranger.has_hung_up()) << "they were not met at the same time: " << met;
  for (int server = 0; server < kServers; ++server) {
    EXPECT_THAT(std::string(met.message()),
                HasSubstr(fmt::format("ps {} at {}: ", server, stranger.address())));
  }
}

TEST_F(StrangersTest, DoNotKeepAWorkerFromMeetingEachServerOfMany) {
  constexpr std::size_t kServers = 100;
  SilentServer stranger(/*challenges=*/true);
  Caller worker = Worker();
  worker.patience = testing::Slowed(std::chrono::milliseconds(500));
  ShardGroup group(Group(worker, std::vector(kServers, stranger.address())));
  for (int round = 0; round < 20 && stranger.taken_for().size() < kServers; ++round) {
    EXPECT_TRUE(absl::IsUnavailable(group.Connect()));
  }
  EXPECT_EQ(stranger.taken_for().size(), kServers);
}

TEST_F(StrangersTest, CostAWorkerFewThreadsHoweverManyServersTheyReplace) {
  const Listener silent = *ListenAt("127.0.0.1:0", 128);
  const std::string address = fmt::format("127.0.0.1:{}", silent.port);
  Caller worker = Worker();
  worker.patience = std::chrono::milliseconds(500);
  EXPECT_FALSE(TaskLink(address, worker).Connect().ok());  // starts gRPC's own threads
  ShardGroup group(Group(worker, std::vector(100, address)));
  const int before = ThreadsOfThisProcess();
  std::atomic<int> most = before;
  std::jthread watch([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) most = std::max(most.load(), ThreadsOfThisProcess());
  });
  EXPECT_TRUE(absl::IsUnavailable(group.Connect()));
  watch = {};
  EXPECT_LT(most - before, 2 * 16 + 16) << "16 servers at a time";
}

// A server that is away may come back; one that refuses this worker is the worse news.
TEST_F(StrangersTest, AreNamedWithTheServersThatAreAway) {
  Serve({}, /*secret=*/"");
  const std::string stranger = address_;
  const std::string away = fmt::format("127.0.0.1:{}", ListenAt("127.0.0.1:0", 1)->port);
  const std::unique_ptr<ParameterServer> keeps_serving = std::move(server_);
  Serve({});
  ShardGroup group(Group(Worker(), {address_, away, stranger}));
  const absl::Status met = group.Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(met)) << met;
  EXPECT_THAT(std::string(met.message()), Not(HasSubstr("ps 0")));
  EXPECT_THAT(std::string(met.message()), HasSubstr("ps 1 at " + away));
  EXPECT_THAT(std::string(met.message()), HasSubstr("ps 2 at " + stranger));
}

// Nothing says that nobody is there.
TEST_F(StrangersTest, AndAddressesWhereNobodyIsTakeNoMoreThanAWorkersPatience) {
  const Listener full = *ListenAt("127.0.0.1:0", 0);
  const std::string address = fmt::format("127.0.0.1:{}", full.port);
  const RudeConnection first(full.port);
  Caller worker = Worker();
  worker.patience = std::chrono::milliseconds(300);
  const absl::Status tasks = TaskLink(address, worker).Connect();
  EXPECT_THAT(std::string(tasks.message()), HasSubstr("it has not answered within 0.3 s"));
  const absl::Status shard = ShardGroup(Group(worker, {address})).Connect();
  EXPECT_THAT(std::string(shard.message()), HasSubstr("it has not answered within 0.3 s"));
}

// Passes on what its callers say to a server of the job, and what that answers.
class PassingServer final : private proto::ParameterServer::Service {
 public:
  explicit PassingServer(std::string target) : target_(std::move(target)) {
    grpc::ServerBuilder builder;
    SetServerOptions(builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~PassingServer() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }

 private:
  grpc::Status Coordinate(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::TaskReply, proto::WorkerRequest>* caller) override {
    const auto stub = proto::ParameterServer::NewStub(ChannelTo(target_));
    grpc::ClientContext context;
    const auto server = stub->Coordinate(&context);
    proto::TaskReply reply;
    proto::WorkerRequest request;
    while (server->Read(&reply)) {
      if (caller->Write(reply) && caller->Read(&request)) {
        server->Write(request);
      } else {
        context.TryCancel();
      }
    }
    return server->Finish();
  }

  const std::string target_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StrangersTest, CannotPassOnAWorkersProof) {
  Serve({}, testing::kJobSecret, "127.0.0.2");
  const PassingServer stranger(address_);
  const absl::Status met = TaskLink(stranger.address(), Worker()).Connect();
  EXPECT_TRUE(absl::IsPermissionDenied(met)) << met;
  EXPECT_THAT(std::string(met.message()),
              HasSubstr("the caller has dialled another address than this process's own: "));
  EXPECT_TRUE(TaskLink(address_, Worker()).Connect().ok());
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
