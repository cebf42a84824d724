#include "operator/kube/rest/resource_path.h"

#include <gtest/gtest.h>

namespace lockstep::kube {
namespace {

const Kind kNodeKind{"", "v1", "Node", "nodes", false};
const Kind kDeploymentKind{"apps", "v1", "Deployment", "deployments"};

TEST(ResourcePathTest, NamesGroupVersionNamespaceAndObject) {
  EXPECT_EQ(ObjectPath(kPodKind, {"default", "a"}), "/api/v1/namespaces/default/pods/a");
  EXPECT_EQ(ObjectPath(kDeploymentKind, {"x", "web"}),
            "/apis/apps/v1/namespaces/x/deployments/web");
  EXPECT_EQ(ObjectPath(kNodeKind, {"", "n1"}), "/api/v1/nodes/n1");
  EXPECT_EQ(CollectionPath(kPodKind, ""), "/api/v1/pods");
}

TEST(ResourcePathTest, ANameCannotLeaveItsPlace) {
  EXPECT_EQ(ObjectPath(kPodKind, {"default", "../secrets?x#y"}),
            "/api/v1/namespaces/default/pods/..%2Fsecrets%3Fx%23y");
}

TEST(ResourcePathTest, ANameThatIsNoneIsRefused) {
  EXPECT_TRUE(CheckKey(kPodKind, {"default", "a.b-c"}).ok());
  EXPECT_TRUE(CheckKey({"", "v1", "Node", "nodes", false}, {"", "a"}).ok());
  for (const char* name : {"", ".", "..", "a/b", "../x", "a%2Fb"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckKey(kPodKind, {"default", name}))) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(CheckKey(kPodKind, {name, "a"}))) << name;
  }
}

TEST(ResourcePathTest, QueriesAreEncodedAndEmptyValuesLeftOut) {
  EXPECT_EQ(Query({{"labelSelector", "a in (b,c),!d,e=f+g h"}, {"continue", ""}, {"limit", "5"}}),
            "?labelSelector=a%20in%20%28b%2Cc%29%2C%21d%2Ce%3Df%2Bg%20h&limit=5");
  EXPECT_EQ(Query({{"continue", ""}}), "");
}

TEST(ResourcePathTest, DescribesACall) {
  EXPECT_EQ(Describe("create", kPodKind, {"default", "a"}), "create pods default/a");
  EXPECT_EQ(Describe("list", kPodKind, {"default", ""}), "list pods default");
  EXPECT_EQ(Describe("watch", kPodKind, {}), "watch pods");
}

}  // namespace
}  // namespace lockstep::kube
