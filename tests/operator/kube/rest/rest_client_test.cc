#include "operator/kube/rest/rest_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "operator/kube/rest/api_server_client.h"
#include "operator/kube/server_errors.h"
#include "operator/kube/stream_end.h"
#include "tests/support/certificate_server.h"
#include "tests/support/fake_http_server.h"
#include "tests/support/temp_directory.h"
#include "tests/support/time_limit.h"
#include "tests/support/wire_object.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using testing::FakeHttpServer;
using ::testing::HasSubstr;
using Connection = FakeHttpServer::Connection;
using Request = FakeHttpServer::Request;

const char kPod[] = R"({"kind":"Pod","metadata":{"name":"a","namespace":"x","uid":"u",)"
                    R"("resourceVersion":"7","managedFields":[{"manager":"m"}]}})";

std::string StatusBody(int code, const std::string& reason, const std::string& message) {
  return Object({{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}})
      .dump();
}

std::string Event(const std::string& type, const std::string& version) {
  const Object event = {{"type", type},
                        {"object", {{"metadata", {{"name", "a"}, {"resourceVersion", version}}}}}};
  return event.dump() + "\n";
}

Object Pod() {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", "a"}, {"namespace", "x"}, {"resourceVersion", "6"}}}};
}

class RestClientTest : public ::testing::Test {
 protected:
  // Sets the handler of all further requests.
  void Serve(FakeHttpServer::Handler handler) {
    server_ = std::make_unique<FakeHttpServer>(std::move(handler));
    client_ = Connect({});
  }
  std::unique_ptr<RestClient> Connect(RestClientOptions options) {
    RestConfig config;
    config.server = server_->url();
    auto client = MakeRestClient(config, std::move(options));
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }
  Request OnlyRequest() const {
    const auto requests = server_->requests();
    EXPECT_EQ(requests.size(), 1U);
    return requests.empty() ? Request() : requests[0];
  }
  absl::Status Watch(RestClient& client, std::vector<WatchEvent>& events,
                     std::stop_token stop = {}) {
    return client.Watch(
        kPodKind, {.namespace_name = "x", .label_selector = "a in (b)", .resource_version = "5"},
        std::move(stop), [&](WatchEvent event) { events.push_back(std::move(event)); });
  }

  std::unique_ptr<FakeHttpServer> server_;
  std::unique_ptr<RestClient> client_;
};

TEST_F(RestClientTest, GetAsksForTheObjectAndLeavesManagedFieldsOut) {
  Serve([](const Request&, Connection& to) { to.Respond(200, kPod); });
  const auto pod = client_->Get(kPodKind, {"x", "a"});
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(Uid(*pod), "u");
  EXPECT_FALSE(pod->at("metadata").contains("managedFields"));
  const Request request = OnlyRequest();
  EXPECT_EQ(request.method + " " + request.target, "GET /api/v1/namespaces/x/pods/a");
  EXPECT_EQ(request.headers.at("user-agent"), "lockstep");
  EXPECT_EQ(request.headers.at("accept"), "application/json");
  EXPECT_FALSE(request.headers.contains("authorization"));
}

TEST_F(RestClientTest, OfMetadataThatAreAskedForNothingElseIsRead) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"kind":"Pod","metadata":{"name":"a","uid":"u"},"spec":{"x":[1,2]}})");
  });
  const auto pod = client_->GetMetadata(kPodKind, {"x", "a"});
  ASSERT_TRUE(pod.ok()) << pod.status();
  EXPECT_EQ(*pod, Object({{"metadata", {{"name", "a"}, {"uid", "u"}}}}));
  EXPECT_EQ(OnlyRequest().target, "/api/v1/namespaces/x/pods/a");
  EXPECT_THAT(OnlyRequest().headers.at("accept"), HasSubstr("as=PartialObjectMetadata"));
}

// Tenants decide how large objects are, and how many are requested at a time.
TEST_F(RestClientTest, SoMuchMetadataIsReadAtATimeAndNoMore) {
  std::atomic<int> inside{0}, most{0};
  Serve([&](const Request&, Connection& to) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    const Object pod = {{"metadata", {{"name", "a"}}}, {"spec", std::string(1'000'000, 'x')}};
    const std::string body = pod.dump();  // takes a while
    --inside;
    to.Respond(200, body);
  });
  const auto client = Connect({.most_answered = 2 * kLongestObject});
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&client] {
      for (int n = 0; n < 5; ++n) EXPECT_TRUE(client->GetMetadata(kPodKind, {"x", "a"}).ok());
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
}

TEST_F(RestClientTest, OfLargeObjectsFewAreCreatedAtATime) {
  std::atomic<int> inside{0}, most{0};
  Serve([&](const Request&, Connection& to) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    const std::string body = Object::parse(kPod).dump() + std::string(1'000'000, ' ');
    --inside;
    to.Respond(201, body);
  });
  Object pod = Pod();
  pod["metadata"]["annotations"]["a"] = std::string(100'000, '<');
  const auto client = Connect({.most_answered = 2'000'000});  // two of them, each byte as eight
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5; ++n) EXPECT_TRUE(client->Create(kPodKind, pod).ok());
    });
  }
  threads.clear();
  EXPECT_LE(most, 2);
}

// Tenants decide how long the answer to a delete is: it may quote their object.
TEST_F(RestClientTest, OfTheAnswerToADeleteNothingIsKept) {
  const std::string longer_than_any_that_is_read((33U << 20U), 'x');
  Serve([&](const Request&, Connection& to) { to.Respond(200, longer_than_any_that_is_read); });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(client_->Delete(kPodKind, {"x", "a"}, {.uid = "u"}).ok());
  // An answer that is too long to be read would have cost a connection each time.
  EXPECT_LT(server_->connections(), 4);
  EXPECT_THAT(server_->requests()[0].headers.at("accept"), HasSubstr("as=Table"));
}

TEST_F(RestClientTest, AnUpdateReturnsWhatWasSentWithTheNewVersion) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"kind":"Table","metadata":{"resourceVersion":"8"},"rows":[]})");
  });
  Object pod = Pod();
  pod["metadata"]["uid"] = "u";
  const auto updated = client_->Update(kPodKind, pod);
  ASSERT_TRUE(updated.ok()) << updated.status();
  pod["metadata"]["resourceVersion"] = "8";
  EXPECT_EQ(updated->at("metadata"), pod.at("metadata"));
}

TEST_F(RestClientTest, ListReadsAPageAndCompletesItsItems) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":"more"},)"
                    R"("items":[{"metadata":{"name":"a"}}]})");
  });
  const auto page = client_->List(
      kPodKind, {.namespace_name = "", .label_selector = "!a", .limit = 1, .continue_token = "c="});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->resource_version, "9");
  EXPECT_EQ(page->continue_token, "more");
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_EQ(page->items[0]["kind"], "Pod");
  EXPECT_EQ(page->items[0]["apiVersion"], "v1");
  EXPECT_EQ(OnlyRequest().target, "/api/v1/pods?limit=1&continue=c%3D&labelSelector=%21a");
}

TEST_F(RestClientTest, APageThatIsTooLongIsAskedForInHalves) {
  std::vector<std::string> asked;
  Serve([&asked](const Request& request, Connection& to) {
    asked.push_back(request.target);
    const bool one = request.target.find("limit=1&") != std::string::npos;
    to.Respond(200, R"({"metadata":{"resourceVersion":"9","continue":"more"},"items":[)" +
                        std::string(one ? R"({"metadata":{"name":"a"}})" : R"({"a":[]})") + "]," +
                        std::string(one ? 20'000 : 200'000, ' ') + "\"kind\":\"PodList\"}");
  });
  client_ = Connect({.longest_page = 10'000});
  const auto page = client_->List(kPodKind, {.limit = 5, .continue_token = "c"});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->continue_token, "more");
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_EQ(Name(page->items[0]), "a");
  EXPECT_THAT(asked, ::testing::ElementsAre("/api/v1/pods?limit=5&continue=c",
                                            "/api/v1/pods?limit=2&continue=c",
                                            "/api/v1/pods?limit=1&continue=c"));
  EXPECT_EQ(page->next_limit, 1);
}

TEST_F(RestClientTest, TheNextPageMayBeLargerWhereThereIsRoom) {
  std::size_t length = 0;
  Serve([&length](const Request&, Connection& to) {
    to.Respond(200,
               R"({"metadata":{"resourceVersion":"9"},"items":[]})" + std::string(length, ' '));
  });
  client_ = Connect({.longest_page = 10'000});
  for (const auto& [bytes, next] : {std::pair(1000, 10), std::pair(3000, 5)}) {
    length = static_cast<std::size_t>(bytes);
    const auto page = client_->List(kPodKind, {.limit = 5});
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->next_limit, next) << bytes;
  }
}

// Long enough for a few calls on loopback.
const Duration kTurn = testing::Slowed(seconds(1));

double OnePer(Duration duration) {
  return 1 / std::chrono::duration<double>(duration).count();
}

// It must end while the server still knows what has changed since its beginning.
TEST_F(RestClientTest, OfAListOnlyTheFirstPageWaitsForTheRateLimit) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"metadata":{"resourceVersion":"9","continue":"more"},"items":[]})");
  });
  const Duration long_turn = testing::Slowed(seconds(30));
  client_ = Connect({.qps = OnePer(long_turn), .burst = 1});
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client_->List(kPodKind, {.limit = 5, .continue_token = i == 0 ? "" : "c"}).ok());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, long_turn * 9 / 10);
  client_ = Connect({.qps = OnePer(kTurn), .burst = 1});
  begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client_->List(kPodKind, {.limit = 5}).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kTurn * 9 / 10);
}

TEST_F(RestClientTest, ALaterPageDoesNotWaitForAFirstOneThatWaitsForTheRateLimit) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"metadata":{"resourceVersion":"9","continue":"more"},"items":[]})");
  });
  bool was_later = true;
  // This thread may be late on a machine with other work.
  for (int i = 0; i < 5 && was_later; ++i) {
    client_ = Connect({.qps = OnePer(kTurn), .burst = 1});
    ASSERT_TRUE(client_->List(kPodKind, {.limit = 8}).ok());  // takes the token
    std::atomic<bool> first_is_there{false};
    const std::jthread first([&] {
      EXPECT_TRUE(client_->List(kPodKind, {.limit = 64}).ok());
      first_is_there = true;
    });
    std::this_thread::sleep_for(milliseconds(100));
    ASSERT_TRUE(client_->List(kPodKind, {.limit = 8, .continue_token = "c"}).ok());
    was_later = first_is_there;
  }
  EXPECT_FALSE(was_later);
}

// The time until all of six clients that list together know that the server does not answer.
Duration TimeOfSilentLists(RestClient& client) {
  std::atomic<int> not_sent{0};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const absl::Status error = client.List(kPodKind, {.limit = 1}).status();
      EXPECT_TRUE(absl::IsDeadlineExceeded(error) || absl::IsUnavailable(error)) << error;
      if (!absl::IsUnavailable(error)) return;
      EXPECT_THAT(std::string(error.message()), HasSubstr("list pods: not sent: "));
      ++not_sent;
    });
  }
  threads.clear();
  EXPECT_GE(not_sent, 1);
  return std::chrono::steady_clock::now() - begin;
}

// Each failure is a sign of life of who follows a kind, and the lack of one restarts the operator.
TEST_F(RestClientTest, APageWaitsForThoseOfOthersNoLongerThanForTheServer) {
  Serve([](const Request&, Connection& to) { to.AwaitClose(); });
  const Duration deadline = testing::Slowed(milliseconds(400));
  client_ = Connect({.most_listed = kLongestStored, .request_deadline = deadline});
  Duration fastest = Duration::max();  // of five: a machine with other work slows down single ones
  for (int i = 0; i < 5 && fastest >= 3 * deadline; ++i) {
    fastest = std::min(fastest, TimeOfSilentLists(*client_));
  }
  EXPECT_LT(fastest, 3 * deadline);
}

// Tenants decide how large objects are, and the server may send a page in one piece.
TEST_F(RestClientTest, SoManyObjectsAreListedAtATimeAndNoMore) {
  std::atomic<int> inside{0}, most{0};
  Serve([&](const Request& request, Connection& to) {
    const int objects = request.target.find("limit=64") != std::string::npos ? 64 : 8;
    const int now = inside += objects;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(milliseconds(5));
    inside -= objects;
    to.Respond(200, R"({"metadata":{"resourceVersion":"9"},"items":[]})");
  });
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      for (int n = 0; n < 5; ++n) {
        EXPECT_TRUE(client_->List(kPodKind, {.limit = i % 2 == 0 ? 64 : 8}).ok());
      }
    });
  }
  threads.clear();
  EXPECT_LE(most, 64);
}

TEST_F(RestClientTest, AListThatTheServerHasForgottenGoesOnWithWhatThereIs) {
  std::vector<std::string> asked;
  bool goes_on = true;
  Serve([&](const Request& request, Connection& to) {
    asked.push_back(request.target);
    if (goes_on && request.target.ends_with("continue=now")) {
      return to.Respond(200,
                        R"({"metadata":{"resourceVersion":"90","continue":"more"},"items":[]})");
    }
    to.Respond(410, R"({"kind":"Status","reason":"Expired","message":"too old","code":410,)"
                    R"("metadata":{"continue":"now"}})");
  });
  const auto page = client_->List(kPodKind, {.limit = 5, .continue_token = "old"});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(page->continue_token, "more");
  EXPECT_THAT(asked, ::testing::ElementsAre("/api/v1/pods?limit=5&continue=old",
                                            "/api/v1/pods?limit=5&continue=now"));
  goes_on = false;
  const auto forgotten = client_->List(kPodKind, {.limit = 5, .continue_token = "old"}).status();
  EXPECT_TRUE(absl::IsOutOfRange(forgotten)) << forgotten;
  EXPECT_EQ(asked.size(), 4U);
}

TEST_F(RestClientTest, AListWithoutItemsIsEmpty) {
  Serve([](const Request&, Connection& to) {
    to.Respond(200, R"({"metadata":{"resourceVersion":"9"},"items":null})");
  });
  const auto page = client_->List(kPodKind, {});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_TRUE(page->items.empty());
}

TEST_F(RestClientTest, AListOfAnotherShapeIsRefusedOrReadAsFarAsItGoes) {
  std::string body;
  Serve([&body](const Request&, Connection& to) { to.Respond(200, body); });
  for (const char* refused : {"7", "[]", R"({"metadata":[]})", R"({"metadata":{},"items":[7]})"}) {
    body = refused;
    EXPECT_TRUE(absl::IsInternal(client_->List(kPodKind, {}).status())) << refused;
  }
  body = R"({"metadata":{"continue":7},"items":{}})";
  const auto page = client_->List(kPodKind, {});
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_TRUE(page->continue_token.empty());
  EXPECT_TRUE(page->items.empty());
}

TEST_F(RestClientTest, ProtobufIsAskedForIfItHasEverythingThatIsRead) {
  wire::PodList list;
  list.mutable_metadata()->set_resourceversion("9");
  list.add_items()->mutable_metadata()->set_name("a");
  Serve([&list](const Request& request, Connection& to) {
    const bool binary = request.headers.at("accept").find("protobuf") != std::string::npos;
    to.Respond(200, binary ? testing::Enveloped("PodList", list)
                           : R"({"metadata":{"resourceVersion":"9"},"items":[)" +
                                 std::string(kPod) + "]}");
  });
  const FieldMask names = {"metadata.name"};
  const FieldMask commands = {"metadata.name", "spec.containers.command"};
  for (const FieldMask* keep : {&names, &commands}) {
    const auto page = client_->List(kPodKind, {.keep = keep});
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->resource_version, "9");
    ASSERT_EQ(page->items.size(), 1U);
    EXPECT_EQ(Name(page->items[0]), "a");
    EXPECT_EQ(page->items[0].at("kind"), "Pod");
  }
  const auto requests = server_->requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].headers.at("accept"),
            "application/vnd.kubernetes.protobuf, application/json");
  EXPECT_EQ(requests[1].headers.at("accept"), "application/json");
}

TEST_F(RestClientTest, ARefusalInProtobufIsRead) {
  wire::Status expired;
  expired.set_reason("Expired");
  expired.set_message("the token has expired");
  expired.mutable_metadata()->set_continue_("rest");
  Serve([&expired](const Request&, Connection& to) {
    to.Respond(410, testing::Enveloped("Status", expired));
  });
  const FieldMask names = {"metadata.name"};
  const absl::Status status = client_->List(kPodKind, {.keep = &names}).status();
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_THAT(status.ToString(), HasSubstr("list pods: the token has expired (410 Expired)"));
  const auto requests = server_->requests();
  ASSERT_EQ(requests.size(), 2U);  // the list continues once from the token of the refusal
  EXPECT_THAT(requests[1].target, HasSubstr("continue=rest"));
}

TEST_F(RestClientTest, WritesGoToTheirPlaces) {
  Serve([](const Request&, Connection& to) { to.Respond(200, kPod); });
  ASSERT_TRUE(client_->Create(kPodKind, Pod()).ok());
  ASSERT_TRUE(client_->Update(kPodKind, Pod()).ok());
  ASSERT_TRUE(client_->UpdateStatus(kPodKind, Pod()).ok());
  ASSERT_TRUE(client_->Delete(kPodKind, {"x", "a"}, {.uid = "u"}).ok());
  const auto requests = server_->requests();
  ASSERT_EQ(requests.size(), 4U);
  EXPECT_EQ(requests[0].method + requests[0].target,
            "POST/api/v1/namespaces/x/pods?fieldValidation=Ignore");
  EXPECT_EQ(requests[1].method + requests[1].target,
            "PUT/api/v1/namespaces/x/pods/a?includeObject=None&fieldValidation=Ignore");
  EXPECT_EQ(requests[2].method + requests[2].target,
            "PUT/api/v1/namespaces/x/pods/a/status?includeObject=None&fieldValidation=Ignore");
  EXPECT_EQ(requests[3].method + requests[3].target,
            "DELETE/api/v1/namespaces/x/pods/a?includeObject=None");
  EXPECT_EQ(Object::parse(requests[0].body), Pod());
  for (const Request& request : requests) {
    EXPECT_EQ(request.headers.at("content-type"), "application/json");
    const bool creates = request.method == "POST";
    EXPECT_THAT(request.headers.at("accept"),
                HasSubstr(creates ? "as=PartialObjectMetadata" : "as=Table"));
  }
  EXPECT_EQ(Object::parse(requests[3].body)["preconditions"]["uid"], "u");
  // Connections are reused, at the latest by the call after the next: the library returns a
  // connection to the pool on its own thread, shortly after it has answered.
  EXPECT_LT(server_->connections(), 4);
}

TEST_F(RestClientTest, AnUpdateWithoutAVersionIsNotSent) {
  Serve([](const Request&, Connection& to) { to.Respond(200, kPod); });
  Object pod = Pod();
  pod["metadata"].erase("resourceVersion");
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Update(kPodKind, pod).status()));
  EXPECT_TRUE(server_->requests().empty());
}

TEST_F(RestClientTest, ARefusalHasItsCodeAndNamesTheCall) {
  Serve([](const Request&, Connection& to) {
    to.Respond(409, StatusBody(409, "AlreadyExists", "pods \"a\" already exists"));
  });
  const absl::Status status = client_->Create(kPodKind, Pod()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(status.ToString(), HasSubstr("create pods x/a: pods \"a\" already exists"));
}

TEST_F(RestClientTest, RetryAfterIsWaitedFor) {
  std::atomic<int> asked{0};
  Serve([&](const Request&, Connection& to) {
    const int nth = asked++;
    if (nth == 0) return to.Respond(429, "", {{"Retry-After", "1"}});
    if (nth == 1) return to.Respond(503, "", {{"Retry-After", "0"}});
    to.Respond(200, kPod);
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(client_->Create(kPodKind, Pod()).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, seconds(1));
  EXPECT_EQ(asked, 3);
}

TEST_F(RestClientTest, ARefusalThatGivesNoTimeIsReturned) {
  Serve([](const Request&, Connection& to) { to.Respond(429, StatusBody(429, "", "no")); });
  EXPECT_TRUE(absl::IsResourceExhausted(client_->Create(kPodKind, Pod()).status()));
  EXPECT_EQ(server_->requests().size(), 1U);
}

TEST_F(RestClientTest, ItDoesNotWaitBeyondItsDeadline) {
  Serve([](const Request&, Connection& to) { to.Respond(429, "", {{"Retry-After", "60"}}); });
  EXPECT_TRUE(absl::IsResourceExhausted(client_->Create(kPodKind, Pod()).status()));
  EXPECT_EQ(server_->requests().size(), 1U);
}

TEST_F(RestClientTest, AServerThatNeverStopsRefusingIsGivenUp) {
  Serve([](const Request&, Connection& to) { to.Respond(503, "", {{"Retry-After", "0"}}); });
  EXPECT_TRUE(absl::IsUnavailable(client_->Get(kPodKind, {"x", "a"}).status()));
  EXPECT_EQ(server_->requests().size(), 11U);
}

TEST_F(RestClientTest, OfAnErrorItSaysWhetherTheServerIsOverloaded) {
  const auto is_overloaded = [this](int code, const char* retry_after, Duration slow_answer) {
    Serve([=](const Request&, Connection& to) {
      if (retry_after == nullptr) return to.Respond(code, "no");
      to.Respond(code, "no", {{"Retry-After", retry_after}});
    });
    client_ = Connect({.slow_answer = slow_answer});
    return IsOverloaded(client_->Delete(kPodKind, {"x", "a"}, {.uid = "u"}));
  };
  const Duration never = std::chrono::hours(1), always = Duration::zero();
  EXPECT_FALSE(is_overloaded(429, nullptr, never)) << "a webhook refuses one object";
  EXPECT_TRUE(is_overloaded(429, "0", never)) << "it never stops asking to come back";
  EXPECT_TRUE(is_overloaded(503, "60", never)) << "later than a call may take";
  EXPECT_TRUE(is_overloaded(504, nullptr, never));
  EXPECT_TRUE(is_overloaded(429, nullptr, always));
  EXPECT_TRUE(is_overloaded(500, nullptr, always));
  EXPECT_FALSE(is_overloaded(403, nullptr, always)) << "it is not its load that refuses";
  EXPECT_FALSE(is_overloaded(200, nullptr, always));
}

TEST_F(RestClientTest, ACallThatHasWaitedForItsOwnTurnDoesNotMakeTheServerOverloaded) {
  Serve([](const Request&, Connection& to) { to.Respond(503, "no"); });
  bool is_overloaded = true;
  // An answer may be slow on a machine with other work.
  for (int i = 0; i < 5 && is_overloaded; ++i) {
    client_ = Connect({.qps = OnePer(kTurn), .burst = 1, .slow_answer = kTurn * 9 / 10});
    is_overloaded = false;
    for (int call = 0; call < 2; ++call) {  // the second waits for a turn
      if (IsOverloaded(client_->Delete(kPodKind, {"x", "a"}, {.uid = "u"}))) is_overloaded = true;
    }
  }
  EXPECT_FALSE(is_overloaded);
}

TEST_F(RestClientTest, TheDeadlineIsForTheWholeAnswer) {
  Serve([](const Request&, Connection& to) {
    to.StartChunks();
    for (int i = 0; i < 12'000 && !to.IsClosed(); ++i) {  // never silent, never complete
      to.Chunk(" ");
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  client_ = Connect({.request_deadline = milliseconds(200)});
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = client_->Get(kPodKind, {"x", "a"}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::TimeLimit(seconds(20)));
}

TEST_F(RestClientTest, ARequestWithoutTimeLeftIsNotSent) {
  RestConfig config;
  config.server = "https://127.0.0.1:1";  // credentials are sent over https only
  config.exec = ExecCredentialSource{};
  config.exec->api_version = "client.authentication.k8s.io/v1";
  config.exec->command = "sh";
  config.exec->args = {"-c", R"(sleep 0.2; echo '{"apiVersion":"client.authentication.k8s.io/v1",)"
                             R"("kind":"ExecCredential","status":{"token":"t"}}')"};
  auto client = MakeRestClient(config, {.request_deadline = milliseconds(100)});
  ASSERT_TRUE(client.ok()) << client.status();
  const absl::Status status = (*client)->Get(kPodKind, {"x", "a"}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("get pods x/a: not sent"));
}

TEST_F(RestClientTest, NobodyThereIsUnavailable) {
  Serve([](const Request&, Connection&) {});
  auto client = Connect({});
  const std::string url = server_->url();
  server_.reset();
  const absl::Status status = client->Get(kPodKind, {"x", "a"}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr(fmt::format("get pods x/a: {}: ", url)));
}

TEST_F(RestClientTest, AReadThatBrokeIsRepeatedOnceAWriteIsNot) {
  std::atomic<int> asked{0};
  Serve([&](const Request& request, Connection& to) {
    if (asked++ == 0 || request.method != "GET") return to.Cut();
    to.Respond(200, kPod);
  });
  EXPECT_TRUE(client_->Get(kPodKind, {"x", "a"}).ok());
  EXPECT_EQ(asked, 2);
  client_ = Connect({});  // no pooled connection, on which the library would retry
  EXPECT_TRUE(absl::IsUnavailable(client_->Create(kPodKind, Pod()).status()));
  EXPECT_EQ(asked, 3);
}

TEST_F(RestClientTest, AnAnswerCutShortIsUnavailable) {
  Serve([](const Request&, Connection& to) {
    to.Send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"kind\":");
    to.Cut();
  });
  EXPECT_TRUE(absl::IsUnavailable(client_->Create(kPodKind, Pod()).status()));
}

TEST_F(RestClientTest, AnAnswerThatIsNoJsonIsAnError) {
  Serve([](const Request&, Connection& to) { to.Respond(200, "<html>"); });
  const std::string expected = ", expected one of the API server at " + server_->url();
  for (const absl::Status& status :
       {client_->Get(kPodKind, {"x", "a"}).status(), client_->List(kPodKind, {}).status()}) {
    EXPECT_TRUE(absl::IsInternal(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr(": found an answer that is not JSON"));
    EXPECT_THAT(std::string(status.message()), EndsWith(expected));
  }
}

TEST_F(RestClientTest, AnErrorThatIsNotAnApiServersNamesWhereItIsFrom) {
  Serve([](const Request& request, Connection& to) {
    to.Respond(request.target.find("/x/") == std::string::npos ? 502 : 302, "Bad Gateway");
  });
  EXPECT_EQ(client_->List(kPodKind, {}).status().message(),
            "list pods: " + server_->url() + ": Bad Gateway (502)");
  EXPECT_THAT(std::string(client_->Get(kPodKind, {"x", "a"}).status().message()),
              HasSubstr("get pods x/a: " + server_->url() + ": the server redirects"));
}

TEST_F(RestClientTest, RedirectsAreNotFollowed) {
  Serve([&](const Request&, Connection& to) {
    to.Respond(307, "", {{"Location", server_->url() + "/elsewhere"}});
  });
  EXPECT_THAT(client_->Get(kPodKind, {"x", "a"}).status().ToString(), HasSubstr("redirects"));
  EXPECT_EQ(server_->requests().size(), 1U);
}

TEST_F(RestClientTest, AWatchGivesEventsAsTheyComeAndEndsWithTheStream) {
  std::promise<void> first_seen;
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk(Event("ADDED", "6"));
    first_seen.get_future().wait();  // the first is seen before the second is sent
    to.Chunk(Event("MODIFIED", "7"));
    to.EndChunks();
  });
  std::vector<std::string> versions;
  const absl::Status end = client_->Watch(
      kPodKind, {.namespace_name = "x", .label_selector = "a in (b)", .resource_version = "5"}, {},
      [&](const WatchEvent& event) {
        versions.push_back(ResourceVersion(event.object));
        if (versions.size() == 1) first_seen.set_value();
      });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_THAT(versions, ::testing::ElementsAre("6", "7"));
  EXPECT_THAT(OnlyRequest().target,
              HasSubstr("/api/v1/namespaces/x/pods?watch=1&allowWatchBookmarks=true&"
                        "labelSelector=a%20in%20%28b%29&resourceVersion=5&timeoutSeconds="));
}

TEST_F(RestClientTest, ARefusedWatchPausesNoLongerThanItMay) {
  Serve([](const Request&, Connection& to) { to.Respond(429, "", {{"Retry-After", "3600"}}); });
  const auto client = Connect({.longest_pause = std::chrono::milliseconds(50)});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(absl::IsResourceExhausted(
      client->Watch(kPodKind, {.namespace_name = "x"}, {}, [](WatchEvent) {})));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(50));
  EXPECT_LT(took, testing::TimeLimit(seconds(20)));
}

// A tenant's object can have 9 MB as an event, and the next arrives before this one is read.
TEST_F(RestClientTest, AWatchThatIsReadSlowlyIsNotReadAhead) {
  constexpr int kEvents = 100;
  std::atomic<int> sent{0};
  Serve([&](const Request&, Connection& to) {
    Object event = Object::parse(Event("ADDED", "6"));
    event["object"]["spec"] = std::string(1'000'000, 'x');
    const std::string line = event.dump() + "\n";
    to.StartChunks();
    for (; sent < kEvents; ++sent) to.Chunk(line);
    to.EndChunks();
  });
  int seen = 0;
  const absl::Status end = client_->Watch(kPodKind, {.namespace_name = "x"}, {}, [&](WatchEvent) {
    if (++seen > 1) return;
    // Until no more is taken: what has been sent by then is in the sockets' buffers.
    for (int before = -1; before != sent;) {
      before = sent;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    EXPECT_LT(sent, kEvents / 2);
  });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(seen, kEvents);
}

TEST_F(RestClientTest, AWatchByteByByteIsTheSame) {
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    const std::string events = Event("ADDED", "6") + Event("MODIFIED", "7");
    for (const char c : events) to.Chunk(std::string(1, c));
    to.EndChunks();
  });
  std::vector<WatchEvent> events;
  EXPECT_TRUE(Watch(*client_, events).ok());
  EXPECT_EQ(events.size(), 2U);
}

TEST_F(RestClientTest, AForgottenVersionIsOutOfRangeAtTheStartAndLater) {
  Serve([&](const Request&, Connection& to) {
    to.Respond(410, StatusBody(410, "Expired", "too old"));
  });
  std::vector<WatchEvent> events;
  EXPECT_TRUE(absl::IsOutOfRange(Watch(*client_, events)));
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk(Event("ADDED", "6") +
             "{\"type\":\"ERROR\",\"object\":" + StatusBody(410, "Expired", "too old") + "}\n");
    (void)to.AwaitClose();  // the client hangs up
  });
  EXPECT_TRUE(absl::IsOutOfRange(Watch(*client_, events)));
  EXPECT_EQ(events.size(), 1U);
}

TEST_F(RestClientTest, AWatchThatIsCutIsUnavailable) {
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk(Event("ADDED", "6"));
    to.Chunk("{\"type\":\"MODI");
    to.Cut();
  });
  std::vector<WatchEvent> events;
  const absl::Status status = Watch(*client_, events);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(HasBegun(status));
  EXPECT_FALSE(IsSilent(status));
  EXPECT_EQ(events.size(), 1U);
}

TEST_F(RestClientTest, ASilentStreamIsTakenForDead) {
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk(Event("ADDED", "6"));
    (void)to.AwaitClose();
  });
  client_ = Connect({.watch_timeout = milliseconds(300)});
  std::vector<WatchEvent> events;
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = Watch(*client_, events);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(IsSilent(status) && HasBegun(status));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, testing::TimeLimit(seconds(5)));
}

TEST_F(RestClientTest, AWatchWhoseHeadersDoNotComeEnds) {
  Serve([&](const Request&, Connection& to) { (void)to.AwaitClose(); });
  client_ = Connect({.request_deadline = milliseconds(200)});
  std::vector<WatchEvent> events;
  const absl::Status status = Watch(*client_, events);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_FALSE(IsSilent(status) || HasBegun(status));
}

TEST_F(RestClientTest, AWatchAsksForNoMoreTimeThanAllMayTake) {
  Serve([](const Request&, Connection& to) {
    to.StartChunks();
    to.EndChunks();
  });
  client_ = Connect({.watch_timeout = seconds(20)});
  EXPECT_TRUE(client_->Watch(kPodKind, {.timeout = std::chrono::hours(1)}, {}, {}).ok());
  const std::string target = OnlyRequest().target;
  EXPECT_THAT(target, ::testing::ContainsRegex("timeoutSeconds=(1[6-9]|20)$"));
}

TEST_F(RestClientTest, AStoppedWatchEndsAtOnceAndTheServerSeesIt) {
  std::promise<bool> closed;
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk(Event("ADDED", "6"));
    closed.set_value(to.AwaitClose());
  });
  std::stop_source stop;
  int events = 0;
  std::jthread stopper;
  const absl::Status end = client_->Watch(kPodKind, {}, stop.get_token(), [&](const WatchEvent&) {
    ++events;
    stopper = std::jthread([&] { stop.request_stop(); });
  });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(events, 1);
  EXPECT_TRUE(closed.get_future().get());
}

TEST_F(RestClientTest, AWatchCanBeStoppedBeforeItsHeadersCome) {
  std::promise<void> asked;
  Serve([&](const Request&, Connection& to) {
    asked.set_value();
    (void)to.AwaitClose();
  });
  std::stop_source stop;
  std::jthread stopper([&] {
    asked.get_future().wait();
    stop.request_stop();
  });
  std::vector<WatchEvent> events;
  EXPECT_TRUE(Watch(*client_, events, stop.get_token()).ok());
}

TEST_F(RestClientTest, LogsComeAsTheyAre) {
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    to.Chunk("one\n");
    to.Chunk("two");
    to.EndChunks();
  });
  std::string text;
  const absl::Status end =
      client_->ReadPodLog({"x", "a"},
                          {.container = "main",
                           .follow = true,
                           .tail_lines = 5,
                           .since = std::chrono::seconds(60),
                           .timestamps = true},
                          {}, [&](const std::string& piece) { text += piece; });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(text, "one\ntwo");
  EXPECT_EQ(OnlyRequest().target,
            "/api/v1/namespaces/x/pods/a/log?container=main&follow=true&tailLines=5"
            "&sinceSeconds=60&timestamps=true");
}

TEST_F(RestClientTest, ALogWaitsForItsReader) {
  Serve([&](const Request&, Connection& to) {
    to.StartChunks();
    for (int i = 0; i < 100; ++i) to.Chunk(std::string(100'000, 'x'));
    to.EndChunks();
  });
  client_ = Connect({.watch_timeout = milliseconds(400)});
  std::size_t size = 0;
  absl::Status end = absl::UnknownError("not begun");
  for (int i = 0; i < 5 && !end.ok(); ++i) {  // the server may be late on a machine with other work
    size = 0;
    end = client_->ReadPodLog({"x", "a"}, {}, {}, [&](const std::string& piece) {
      if (size == 0) std::this_thread::sleep_for(milliseconds(1000));
      size += piece.size();
    });
  }
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(size, 10'000'000u);
}

// The pod's owner decides what it answers, and must not make us send more, or log in again.
TEST_F(RestClientTest, APodIsAskedOnceWhateverItAnswers) {
  std::atomic<int> status{0};
  FakeHttpServer server(
      [&](const Request&, Connection& to) { to.Respond(status, "no", {{"Retry-After", "0"}}); });
  const TempDirectory folder;
  RestConfig config;
  config.server = server.url();
  config.token_file = folder.At("token");
  WriteTextFile(config.token_file, "first");
  ApiServerClient client(config, {});  // MakeRestClient sends tokens over https only
  ASSERT_TRUE(client.Connect(config).ok());
  for (const int answer : {401, 429, 503}) {
    status = answer;
    EXPECT_FALSE(client.GetFromPod({"x", "a"}, 8080, "/metrics", 1000, seconds(5)).ok());
    WriteTextFile(config.token_file, "second");
  }
  const std::vector<Request> requests = server.requests();
  ASSERT_EQ(requests.size(), 3U);
  for (const Request& request : requests) {
    EXPECT_EQ(request.headers.at("authorization"), "Bearer first");
  }
}

TEST_F(RestClientTest, TheServersPrefixStandsBeforeEveryPath) {
  Serve([](const Request&, Connection& to) { to.Respond(200, kPod); });
  RestConfig config;
  config.server = server_->url() + "/k8s/clusters/c-1";
  const auto client = MakeRestClient(config, {});
  ASSERT_TRUE(client.ok());
  ASSERT_TRUE((*client)->Get(kPodKind, {"x", "a"}).ok());
  EXPECT_EQ(OnlyRequest().target, "/k8s/clusters/c-1/api/v1/namespaces/x/pods/a");
}

TEST(MakeRestClientTest, RefusesWhatCannotWork) {
  const auto error = [](const RestConfig& config) {
    return MakeRestClient(config).status().ToString();
  };
  RestConfig config;
  config.server = "http://127.0.0.1:1";
  config.token = "secret";
  EXPECT_THAT(error(config), HasSubstr("over https only"));
  EXPECT_THAT(error(config), ::testing::Not(HasSubstr("secret")));
  config = {};
  config.server = "127.0.0.1:6443";
  EXPECT_THAT(error(config), HasSubstr("expected https://host:port"));
  config.server = "https://[::1]:6443";
  EXPECT_THAT(error(config), HasSubstr("IPv6"));
  config.server = "https://h:1";
  config.client_key_pem = "k";
  EXPECT_THAT(error(config), HasSubstr("a client key without a client certificate"));
  config = {};
  config.server = "https://h:1";
  config.ca_pem = "c";
  config.insecure_skip_tls_verify = true;
  EXPECT_THAT(error(config), HasSubstr("exclude each other"));
}

TEST(RestClientTlsTest, AnAuthorityThatCannotBeReadIsNamed) {
  RestConfig config;
  FakeHttpServer server([](const Request&, Connection&) {});
  config.server = "https://127.0.0.1:" + std::to_string(server.port());
  config.ca_file = "/no/such/ca.crt";
  auto client = MakeRestClient(config);
  ASSERT_TRUE(client.ok());
  EXPECT_THAT((*client)->Get(kPodKind, {"x", "a"}).status().ToString(),
              HasSubstr(": /no/such/ca.crt: the cluster's certificate authority"));
  config.ca_file.clear();
  config.ca_pem = "rubbish";
  client = MakeRestClient(config);
  EXPECT_THAT((*client)->Get(kPodKind, {"x", "a"}).status().ToString(),
              HasSubstr("certificate authority cannot be used"));
}

// A client of an HTTPS server, with a certificate in a file.
class RestClientCertificateTest : public ::testing::Test {
 protected:
  void Serve(std::function<int(const std::string& name)> status_for) {
    server_ = std::make_unique<testing::CertificateServer>(std::move(status_for));
    RestConfig config;
    config.server = server_->url();
    config.insecure_skip_tls_verify = true;
    config.client_certificate_file = directory_.At("certificate");
    config.client_key_file = directory_.At("key");
    auto client = MakeRestClient(config);
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void WriteCertificate(const std::string& name) {
    const testing::Identity identity = testing::MakeIdentity(name);
    WriteTextFile(directory_.At("certificate"), identity.certificate);
    WriteTextFile(directory_.At("key"), identity.key);
  }
  absl::Status Get() { return client_->Get(kPodKind, {"x", "a"}).status(); }

  const TempDirectory directory_;
  std::unique_ptr<testing::CertificateServer> server_;
  std::unique_ptr<RestClient> client_;
};

// Kubernetes checks the dates of a connection's certificate at each request.
TEST_F(RestClientCertificateTest, ARenewedCertificateIsShownOnceTheOldOneIsRefused) {
  std::atomic<bool> expired{false};
  WriteCertificate("old");
  Serve([&expired](const std::string& name) { return expired && name == "old" ? 401 : 200; });
  EXPECT_TRUE(Get().ok());
  expired = true;
  EXPECT_TRUE(absl::IsUnauthenticated(Get())) << "there is no other yet";
  WriteCertificate("new");
  EXPECT_TRUE(Get().ok());
  EXPECT_TRUE(Get().ok());
  const std::vector<std::string> names = server_->names();
  EXPECT_EQ(std::ranges::count(names, "new"), 2) << "no connection with the old one is left";
}

TEST_F(RestClientCertificateTest, AWatchIsRepeatedWithARenewedCertificate) {
  WriteCertificate("old");
  Serve([this](const std::string& name) {
    if (name == "old") WriteCertificate("new");
    return name == "old" ? 401 : 200;
  });
  const absl::Status end =
      client_->Watch(kPodKind, {.namespace_name = "x"}, {}, [](const WatchEvent&) {});
  EXPECT_FALSE(absl::IsUnauthenticated(end)) << end;
  EXPECT_THAT(server_->names(), ::testing::ElementsAre("old", "new"));
}

}  // namespace
}  // namespace lockstep::kube
