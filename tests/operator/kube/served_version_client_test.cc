#include "operator/kube/served_version_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/hooked_client.h"

namespace lockstep::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Kind kOak{"trees.example.com", "v2", "Oak", "oaks"};
const Key kOne{"n", "one"};

Object Oak(const std::string& name = kOne.name) {
  return {{"apiVersion", kOak.ApiVersion()},
          {"kind", kOak.kind},
          {"metadata", {{"namespace", kOne.namespace_name}, {"name", name}}},
          {"spec", {{"height", 7}}}};
}

// A server that serves `versions` of the trees, and every object in each of them, as one with a
// conversion does. Other groups have one version, which is always served.
class TreeServer final : public Client {
 public:
  absl::StatusOr<Object> Get(const Kind& kind, const Key& key) override {
    return Answered(kind, "get", [&] { return In(kind, store.Get(kind, key)); });
  }
  absl::StatusOr<Page> List(const Kind& kind, const ListOptions& options) override {
    return Answered(kind, "list", [&] { return store.List(kind, options); });
  }
  absl::Status Watch(const Kind& kind, const WatchOptions& options, std::stop_token stop,
                     const std::function<void(WatchEvent)>& on_event) override {
    return Answered(kind, "watch",
                    [&] { return store.Watch(kind, options, std::move(stop), on_event); });
  }
  absl::StatusOr<Object> Create(const Kind& kind, const Object& object) override {
    return Answered(kind, "create", [&] { return store.Create(kind, object); }, &object);
  }
  absl::StatusOr<Object> Update(const Kind& kind, const Object& object) override {
    return Answered(kind, "update", [&] { return store.Update(kind, object); }, &object);
  }
  absl::StatusOr<Object> UpdateStatus(const Kind& kind, const Object& object) override {
    return Answered(
        kind, "update-status",
        [&] { return store.Update(kind, object); },  // the store knows no status of trees
        &object);
  }
  absl::Status Delete(const Kind& kind, const Key& key, const Preconditions& expected) override {
    return Answered(kind, "delete", [&] { return store.Delete(kind, key, expected); });
  }
  absl::Status ForceDelete(const Kind& kind, const Key& key,
                           const Preconditions& expected) override {
    return Answered(kind, "force-delete", [&] { return store.ForceDelete(kind, key, expected); });
  }

  std::set<std::string> versions;
  absl::Status fault;  // of every version that is served
  std::vector<std::string> asked;
  testing::HookedClient store;

 private:
  template <typename Call>
  auto Answered(const Kind& kind, const std::string& verb, const Call& call,
                const Object* written = nullptr) -> decltype(call()) {
    asked.push_back(kind.version + " " + verb);
    if (kind.group == kOak.group && !versions.contains(kind.version)) {
      return absl::NotFoundError(kind.version + " " + verb + ": 404 page not found");
    }
    if (!fault.ok()) return fault;
    if (written != nullptr && TextMember(*written, "apiVersion") != kind.ApiVersion()) {
      return absl::FailedPreconditionError("the API version in the data does not match");
    }
    return call();
  }

  static absl::StatusOr<Object> In(const Kind& kind, absl::StatusOr<Object> object) {
    if (object.ok()) (*object)["apiVersion"] = kind.ApiVersion();
    return object;
  }
};

class ServedVersionClientTest : public ::testing::Test {
 protected:
  void Serve(std::set<std::string> versions) {
    server.versions = std::move(versions);
    server.asked.clear();
  }

  TreeServer server;
  ServedVersionClient client{server, kOak.group, {"v2", "v1"}, [](Object oak, const Kind& kind) {
                               oak["spec"]["made for"] = kind.version;
                               return oak;
                             }};
};

TEST_F(ServedVersionClientTest, TheNewestVersionIsTakenOfThoseThatAreServed) {
  Serve({"v1", "v2"});
  ASSERT_TRUE(client.Create(kOak, Oak()).ok());
  EXPECT_TRUE(client.List(kOak, {}).ok());
  EXPECT_THAT(server.asked, ElementsAre("v2 create", "v2 list"));
  EXPECT_EQ(client.Get(kOak, kOne)->at("spec"), (Object{{"height", 7}}));
}

TEST_F(ServedVersionClientTest, AnOlderVersionIsTakenIfNoOtherIsServed) {
  Serve({"v1"});
  EXPECT_TRUE(client.List(kOak, {}).ok());
  EXPECT_TRUE(client.List(kOak, {}).ok());
  EXPECT_THAT(server.asked, ElementsAre("v2 list", "v1 list", "v1 list")) << "it is remembered";
}

TEST_F(ServedVersionClientTest, AnObjectIsCreatedWithTheFieldsOfTheServedVersion) {
  Serve({"v1"});
  ASSERT_TRUE(client.Create(kOak, Oak()).ok());
  EXPECT_EQ(client.Get(kOak, kOne)->at("spec"), (Object{{"height", 7}, {"made for", "v1"}}));
}

// As when an upgrade stops serving the old version while this process runs.
TEST_F(ServedVersionClientTest, WhicheverCallIsTheFirstAfterAnUpgradeNoticesIt) {
  const std::vector<std::function<absl::Status()>> calls = {
      [&] { return client.Get(kOak, kOne).status(); },
      [&] { return client.GetMetadata(kOak, kOne).status(); },
      [&] { return client.List(kOak, {}).status(); },
      [&] { return client.Create(kOak, Oak("two")).status(); },
      [&] {
        std::stop_source source;
        bool has_seen = false;
        const absl::Status end = client.Watch(
            kOak, {.resource_version = "0"}, source.get_token(), [&](const WatchEvent& event) {
              has_seen = has_seen || Name(event.object) == kOne.name;
              source.request_stop();
            });
        return has_seen ? end : absl::InternalError("no event");
      },
      [&] { return client.Delete(kOak, {"n", "two"}, {}); },
      [&] { return client.ForceDelete(kOak, kOne, {}); },
  };
  Serve({"v1"});
  ASSERT_TRUE(client.Create(kOak, Oak()).ok());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Serve({"v1"});
    ASSERT_TRUE(client.List(kOak, {}).ok());
    Serve({"v2"});
    EXPECT_EQ(calls[i](), absl::OkStatus()) << i;
    server.asked.clear();
    EXPECT_TRUE(client.List(kOak, {}).ok());
    EXPECT_THAT(server.asked, ElementsAre("v2 list")) << i;
  }
}

TEST_F(ServedVersionClientTest, AnObjectIsUpdatedInTheVersionInWhichItWasRead) {
  Serve({"v1"});
  ASSERT_TRUE(client.Create(kOak, Oak()).ok());
  const auto old = client.Get(kOak, kOne);
  Serve({"v2"});
  ASSERT_TRUE(client.List(kOak, {}).ok());
  Serve({"v1", "v2"});
  const auto updated = client.Update(kOak, *old);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_THAT(server.asked, ElementsAre("v1 update"));
  EXPECT_TRUE(client.UpdateStatus(kOak, *updated).ok());
}

// Callers take NotFound for the object's end, and would never write what they have to.
TEST_F(ServedVersionClientTest, AnUpdateInAVersionThatIsServedNoMoreIsNotTakenForADeletion) {
  Serve({"v1"});
  ASSERT_TRUE(client.Create(kOak, Oak()).ok());
  const auto old = client.Get(kOak, kOne);
  Serve({"v2"});
  for (const auto& status :
       {client.Update(kOak, *old).status(), client.UpdateStatus(kOak, *old).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("trees.example.com/v1"));
  }
  ASSERT_TRUE(client.Delete(kOak, kOne, {}).ok());
  EXPECT_TRUE(absl::IsNotFound(client.UpdateStatus(kOak, *old).status())) << "it is deleted";
}

TEST_F(ServedVersionClientTest, AnObjectThatDoesNotExistIsNotFoundAndTellsNothingOfVersions) {
  Serve({"v1", "v2"});
  EXPECT_TRUE(absl::IsNotFound(client.Get(kOak, kOne).status()));
  server.asked.clear();
  EXPECT_TRUE(client.List(kOak, {}).ok());
  EXPECT_THAT(server.asked, ElementsAre("v2 list"));
}

TEST_F(ServedVersionClientTest, AServerThatFailsIsNotTakenForOneWithoutTheObject) {
  Serve({"v1"});
  server.fault = absl::UnavailableError("etcd has no leader");
  EXPECT_TRUE(absl::IsUnavailable(client.Get(kOak, kOne).status()));
  Serve({"v2"});
  server.fault = absl::OkStatus();
  server.asked.clear();
  EXPECT_TRUE(client.List(kOak, {}).ok());
  EXPECT_THAT(server.asked, ElementsAre("v2 list")) << "no answer of v1 was one";
}

TEST_F(ServedVersionClientTest, AGroupThatIsNotServedAtAllIsSoInTheWordsOfTheServer) {
  Serve({});
  const absl::Status refused = client.List(kOak, {}).status();
  EXPECT_TRUE(absl::IsNotFound(refused));
  EXPECT_EQ(refused.message(), "v2 list: 404 page not found");
}

TEST_F(ServedVersionClientTest, OtherGroupsAreAskedOnceAndAsTheyAre) {
  Serve({"v1"});
  EXPECT_TRUE(absl::IsNotFound(client.Get(kPodKind, kOne).status()));
  EXPECT_TRUE(absl::IsNotFound(
      client
          .Update(kPodKind,
                  {{"apiVersion", "v1"}, {"metadata", {{"name", "p"}, {"resourceVersion", "1"}}}})
          .status()));
  EXPECT_THAT(server.asked, ElementsAre("v1 get", "v1 update"));
}

}  // namespace
}  // namespace lockstep::kube
