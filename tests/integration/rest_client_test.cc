// What only a real API server shows of RestClient: TLS, tokens, admission, history, and the network
// between them going wrong.
#include "operator/kube/rest/rest_client.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "operator/controller/state/observed.h"
#include "operator/kube/cache/informer.h"
#include "operator/kube/rest/object_json.h"
#include "operator/kube/rest/object_protobuf.h"
#include "operator/kube/runtime/event_recorder.h"
#include "operator/kube/runtime/leader_elector.h"
#include "tests/integration/api_server.h"
#include "tests/operator/local/client_conformance.h"
#include "tests/support/eventually.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/temp_directory.h"
#include "tests/support/whole_object.h"

namespace lockstep::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using testing::ApiServer;
using testing::Eventually;
using testing::FaultProxy;
using ::testing::HasSubstr;
using testing::MustConnect;

const Kind kConfigMapKind{"", "v1", "ConfigMap", "configmaps"};

Object ConfigMap(const std::string& space, const std::string& name, const std::string& value) {
  return {{"apiVersion", "v1"},
          {"kind", "ConfigMap"},
          {"metadata", {{"name", name}, {"namespace", space}}},
          {"data", {{"value", value}}}};
}

RestConfig WithoutCredentials() {
  RestConfig config;
  config.server = ApiServer::Get().config().server;
  config.ca_pem = ApiServer::Get().config().ca_pem;
  return config;
}

TEST(RealServerTest, ATokenFileIsTakenUpAgainWhenItsTokenIsRefused) {
  const TempDirectory directory;
  RestConfig config = WithoutCredentials();
  config.token_file = directory.At("token");
  WriteTextFile(config.token_file, "of yesterday");
  const auto client = MustConnect(config);
  const absl::Status refused = client->List(kConfigMapKind, {.namespace_name = "default"}).status();
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  WriteTextFile(config.token_file, ReadTextFile(ApiServer::Get().token_file()) + "\n");
  EXPECT_TRUE(client->List(kConfigMapKind, {.namespace_name = "default"}).ok());
}

// Leaves out what may be absent in one encoding and empty in the other.
Object WithoutEmptyValues(const Object& value) {
  if (!value.is_structured()) return value;
  Object left = value.is_array() ? Object::array() : Object::object();
  for (const auto& [name, member] : value.items()) {
    const Object below = WithoutEmptyValues(member);
    if (value.is_array()) {
      left.push_back(below);
    } else if (!below.empty() && below != "" && below != 0 && below != false) {
      left[name] = below;
    }
  }
  return left;
}

Object PodWithEveryField(const std::string& space) {
  return Object::parse(fmt::format(R"({{"apiVersion": "v1", "kind": "Pod",
    "metadata": {{"name": "p", "namespace": "{}", "labels": {{"a": "1"}},
                  "annotations": {{"b": "two", "none": ""}},
                  "ownerReferences": [{{"apiVersion": "v1", "kind": "ConfigMap", "name": "c",
                                        "uid": "u", "controller": true}}]}},
    "spec": {{"restartPolicy": "Never", "nodeName": "n", "volumes": [],
              "containers": [{{"name": "m", "image": "i", "env": [{{"name": "E", "value": "v"}}]}},
                             {{"name": "s", "image": "k", "command": ["c"]}}]}}}})",
                                   space));
}

Object StatusWithEveryField() {
  return Object::parse(R"({"phase": "Running", "message": "m", "reason": "Evicted",
    "hostIP": "10.0.0.2", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
    "startTime": "2026-05-01T12:00:00Z",
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "r", "message": "why",
                    "lastTransitionTime": "2026-05-01T12:00:00Z", "lastProbeTime": null}],
    "containerStatuses": [
      {"name": "m", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
       "lastState": {"terminated": {"exitCode": 0, "startedAt": null,
                                    "finishedAt": "2026-05-01T12:00:01Z"}},
       "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled",
                                "message": "killed", "finishedAt": "2026-05-01T12:00:02Z"}}},
      {"name": "s", "image": "k", "imageID": "", "ready": true, "restartCount": 0, "lastState": {},
       "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]})");
}

TEST(RealServerTest, APodReadsAlikeInBothEncodings) {
  const auto client = ApiServer::Get().Connect();
  const std::string space = testing::NewNamespace(*client);
  const FieldMask keep = controller::PodFields();
  ASSERT_TRUE(HasProtobufOf(kPodKind, &keep));
  Object pod = PodWithEveryField(space);
  const auto created = client->Create(kPodKind, pod);
  ASSERT_TRUE(created.ok()) << created.status();
  pod["metadata"]["resourceVersion"] = ResourceVersion(*created);
  pod["status"] = StatusWithEveryField();
  const auto updated = client->UpdateStatus(kPodKind, pod);
  ASSERT_TRUE(updated.ok()) << updated.status();
  ASSERT_TRUE(client->Delete(kPodKind, {space, "p"}, {}).ok());          // waits for its kubelet
  const auto whole = client->List(kPodKind, {.namespace_name = space});  // as JSON
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->items.size(), 1U);
  const auto masked = ParseObject(Object({{"o", whole->items[0]}}).dump(), "o", &keep);
  ASSERT_TRUE(masked.ok()) << masked.status();

  const auto listed = client->List(kPodKind, {.namespace_name = space, .keep = &keep});
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->items.size(), 1U);
  Object item = listed->items[0];
  item.erase("apiVersion");
  item.erase("kind");
  EXPECT_EQ(WithoutEmptyValues(item), WithoutEmptyValues(masked->at("o")));
  EXPECT_EQ(controller::ObservePod(item), controller::ObservePod(whole->items[0]));

  std::stop_source stop;
  Object watched;
  const absl::Status end = client->Watch(
      kPodKind,
      {.namespace_name = space, .resource_version = ResourceVersion(*created), .keep = &keep},
      stop.get_token(), [&](WatchEvent event) {
        if (ResourceVersion(event.object) != ResourceVersion(whole->items[0])) return;
        watched = std::move(event.object);
        stop.request_stop();
      });
  EXPECT_TRUE(end.ok()) << end;
  EXPECT_EQ(watched, item);
}

TEST(RealServerTest, TheSameEventAgainCountsUpOneSeries) {
  const auto client = ApiServer::Get().Connect();
  const std::string space = testing::NewNamespace(*client);
  const auto about = client->Create(kConfigMapKind, ConfigMap(space, "a", "b"));
  ASSERT_TRUE(about.ok()) << about.status();
  const SystemClock clock;
  EventRecorder recorder(*client, clock, "example.com/test", "pod-1");
  for (int i = 0; i < 3; ++i) {
    recorder.Record(kConfigMapKind, IdentityOf(*about), EventType::kWarning, "Failed", "Start",
                    "it broke");
  }
  const auto events = client->List(kEventKind, {.namespace_name = space});
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->items.size(), 1U);
  EXPECT_EQ(events->items.front().at("series").at("count"), 3);
}

TEST(RealServerTest, ARefusalNamesWhatIsForbidden) {
  const auto client = MustConnect(WithoutCredentials());
  const absl::Status status =
      client->Create(kConfigMapKind, ConfigMap("default", "a", "1")).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("create configmaps default/a: configmaps is forbidden"));
}

TEST(RealServerTest, AServerOfAnotherAuthorityIsNotBelieved) {
  RestConfig config = ApiServer::Get().config();
  config.ca_pem = config.client_certificate_pem;  // a certificate, but no authority of the server's
  const absl::Status status =
      MustConnect(config)->List(kConfigMapKind, {.namespace_name = "default"}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  const auto names_the_fault =
      AnyOf(HasSubstr("handshake: self-signed certificate"),
            HasSubstr("handshake: unable to get local issuer certificate"));
  EXPECT_THAT(status.ToString(), names_the_fault);
  config.ca_pem.clear();  // the system's roots do not know it either
  EXPECT_THAT(
      MustConnect(config)->List(kConfigMapKind, {.namespace_name = "default"}).status().ToString(),
      AllOf(HasSubstr("UNAVAILABLE"), names_the_fault));
  config.insecure_skip_tls_verify = true;
  EXPECT_TRUE(MustConnect(config)->List(kConfigMapKind, {.namespace_name = "default"}).ok());
}

TEST(RealServerTest, TheServersNameIsVerified) {
  RestConfig config = ApiServer::Get().config();
  config.tls_server_name = "kubernetes.default.svc";  // its certificate has it
  EXPECT_TRUE(MustConnect(config)->List(kConfigMapKind, {.namespace_name = "default"}).ok());
  config.tls_server_name = "elsewhere.example.com";
  const absl::Status refused =
      MustConnect(config)->List(kConfigMapKind, {.namespace_name = "default"}).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(refused.ToString(), HasSubstr("found a certificate of another name, expected one of "
                                            "elsewhere.example.com"));
}

TEST(RealServerTest, AnObjectNearAMegabyteTravelsBothWays) {
  const auto client = ApiServer::Get().Connect();
  const std::string space = testing::NewNamespace(*client);
  const std::string value(1'000'000, 'x');
  const auto made = client->Create(kConfigMapKind, ConfigMap(space, "big", value));
  ASSERT_TRUE(made.ok()) << made.status();
  std::stop_source stop;
  std::size_t seen = 0;
  EXPECT_TRUE(client
                  ->Watch(kConfigMapKind, {.namespace_name = space}, stop.get_token(),
                          [&](const WatchEvent& event) {
                            seen = event.object["data"]["value"].get<std::string>().size();
                            stop.request_stop();
                          })
                  .ok());
  EXPECT_EQ(seen, value.size());
  const absl::Status status =
      client->Create(kConfigMapKind, ConfigMap(space, "bigger", std::string(4'000'000, 'x')))
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status.ToString().substr(0, 300);
}

TEST(RealServerTest, AVersionOfLongAgoIsOutOfRange) {
  const auto client = ApiServer::Get().Connect({.watch_timeout = seconds(5)});
  testing::InstallWidgets(*client);  // their history began later than version 1
  const auto watch = [&] {
    return client->Watch(local::kWidgetKind, {.namespace_name = "default", .resource_version = "1"},
                         {}, [](const WatchEvent&) {});
  };
  absl::Status status = watch();
  // While the server has yet to fill its cache of a kind that is new to it.
  for (int i = 0; i < 30 && absl::IsResourceExhausted(status); ++i) status = watch();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
}

TEST(RealServerTest, TheServerEndsAWatchWhenItsTimeIsUp) {
  const auto client = ApiServer::Get().Connect({.watch_timeout = seconds(2)});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(
      client->Watch(kConfigMapKind, {.namespace_name = "default"}, {}, [](const WatchEvent&) {})
          .ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

// An informer that reaches the server through a proxy, and a client that writes past it.
class InformerOverProxyTest : public ::testing::Test {
 protected:
  InformerOverProxyTest()
      : space_(testing::NewNamespace(*direct_)), client_(Through(proxy_, seconds(1))) {}

  static std::unique_ptr<RestClient> Through(const FaultProxy& proxy, Duration watch_timeout) {
    RestConfig config = ApiServer::Get().config();
    config.server = fmt::format("https://127.0.0.1:{}", proxy.port());
    return MustConnect(config, {.request_deadline = seconds(2), .watch_timeout = watch_timeout});
  }
  void Write(const std::string& name, const std::string& value) {
    auto current = direct_->Get(kConfigMapKind, {space_, name});
    if (!current.ok()) {
      ASSERT_TRUE(direct_->Create(kConfigMapKind, ConfigMap(space_, name, value)).ok());
      return;
    }
    (*current)["data"]["value"] = value;
    ASSERT_TRUE(direct_->Update(kConfigMapKind, *current).ok());
  }
  static ReflectorOptions Quick(const std::string& space) {
    ReflectorOptions options;
    options.namespace_name = space;
    options.backoff.initial = milliseconds(5);
    options.backoff.limit = milliseconds(50);
    return options;
  }
  bool EventuallyHas(const Informer<Object>& informer, const std::string& name,
                     const std::string& value) {
    return Eventually([&] {
      const auto object = informer.store().Get({space_, name});
      return object && object->value["data"]["value"] == value;
    });
  }

  std::unique_ptr<RestClient> direct_ = ApiServer::Get().Connect();
  const std::string space_;
  FaultProxy proxy_{ApiServer::Get().port()};
  std::unique_ptr<RestClient> client_;
};

TEST_F(InformerOverProxyTest, AStreamThatArrivesByteByByteIsRead) {
  proxy_.SetMode(FaultProxy::Mode::kByteByByte);
  Write("a", "1");
  Informer<Object> informer(*client_, kConfigMapKind, Quick(space_), WholeObject);
  informer.Start();
  ASSERT_TRUE(informer.WaitForSync());
  Write("a", "2");
  EXPECT_TRUE(EventuallyHas(informer, "a", "2"));
}

TEST_F(InformerOverProxyTest, ACutStreamIsTakenUpWhereItEnded) {
  Informer<Object> informer(*client_, kConfigMapKind, Quick(space_), WholeObject);
  informer.Start();
  ASSERT_TRUE(informer.WaitForSync());
  for (int i = 1; i <= 60; ++i) {
    proxy_.CutAfter(i * 7);  // anywhere within the records of an event
    Write("a", std::to_string(i));
    ASSERT_TRUE(EventuallyHas(informer, "a", std::to_string(i)));
  }
}

TEST_F(InformerOverProxyTest, AHalfOpenStreamIsFoundOut) {
  Informer<Object> informer(*client_, kConfigMapKind, Quick(space_), WholeObject);
  informer.Start();
  ASSERT_TRUE(informer.WaitForSync());
  Write("a", "1");
  ASSERT_TRUE(EventuallyHas(informer, "a", "1"));
  proxy_.SetMode(FaultProxy::Mode::kFrozen);
  Write("a", "2");  // its event is never delivered on this connection
  const int before = proxy_.connections();
  ASSERT_TRUE(Eventually([&] { return proxy_.connections() > before; }));
  proxy_.SetMode(FaultProxy::Mode::kForward);
  EXPECT_TRUE(EventuallyHas(informer, "a", "2"));
}

TEST_F(InformerOverProxyTest, AServerThatIsAwayIsWaitedFor) {
  Informer<Object> informer(*client_, kConfigMapKind, Quick(space_), WholeObject);
  informer.Start();
  ASSERT_TRUE(informer.WaitForSync());
  proxy_.SetMode(FaultProxy::Mode::kRefuse);
  proxy_.CutAfter(0);
  Write("a", "1");
  const int before = proxy_.connections();
  ASSERT_TRUE(Eventually([&] { return proxy_.connections() > before + 5; }));
  proxy_.SetMode(FaultProxy::Mode::kForward);
  EXPECT_TRUE(EventuallyHas(informer, "a", "1"));
}

LeaderElectionOptions Lease(const std::string& space, const std::string& identity) {
  LeaderElectionOptions options;
  options.lease = {space, "leader"};
  options.identity = identity;
  // Between the two, the threads that renew the lease must be given a turn.
  options.lease_duration = seconds(6);
  options.renew_deadline = seconds(2);
  options.retry_period = milliseconds(100);
  return options;
}

TEST_F(InformerOverProxyTest, ALeaderBehindADeadConnectionStopsBeforeTheNextOneLeads) {
  const SystemClock clock;
  std::atomic<bool> a_lost{false}, b_leads{false}, overlap{false};
  LeaderElector a(*client_, clock, Lease(space_, "a"), [&](const std::string&) {
    if (b_leads) overlap = true;
    a_lost = true;
  });
  LeaderElector b(*direct_, clock, Lease(space_, "b"), [](const std::string&) {});
  ASSERT_TRUE(a.Acquire({}).ok());
  std::jthread waiting([&] {
    const absl::Status status = b.Acquire({});
    b_leads = true;
    if (a.IsLeader() || !a_lost || !status.ok()) overlap = true;
  });
  proxy_.SetMode(FaultProxy::Mode::kFrozen);
  EXPECT_TRUE(Eventually([&] { return b_leads.load(); }));
  waiting.join();
  EXPECT_TRUE(a_lost);
  EXPECT_FALSE(overlap);
  proxy_.SetMode(FaultProxy::Mode::kForward);
}

TEST_F(InformerOverProxyTest, AReleasedLeaseIsTakenAtOnce) {
  const SystemClock clock;
  const auto ignore = [](const std::string&) {};
  LeaderElectionOptions options = Lease(space_, "a");
  options.lease_duration = std::chrono::hours(1);
  LeaderElector a(*direct_, clock, options, ignore);
  options.identity = "b";
  LeaderElector b(*client_, clock, options, ignore);
  ASSERT_TRUE(a.Acquire({}).ok());
  a.Release();
  ASSERT_TRUE(b.Acquire({}).ok());
  const auto lease = direct_->Get(kLeaseKind, {space_, "leader"});
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ((*lease)["spec"]["holderIdentity"], "b");
  EXPECT_EQ((*lease)["spec"]["leaseTransitions"], 1);
}

}  // namespace
}  // namespace lockstep::kube
