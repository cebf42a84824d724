#include "base/cluster_domain.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(ClusterDomainTest, IsWhatFollowsTheServicesInTheSearchList) {
  EXPECT_EQ(ClusterDomainIn("search lockstep-system.svc.cluster.local svc.cluster.local "
                            "cluster.local example.com\nnameserver 10.96.0.10\n"
                            "options ndots:5\n"),
            "cluster.local");
  EXPECT_EQ(ClusterDomainIn("nameserver fd00::a\n\nsearch\ta.svc.k8s.example.\tsvc.k8s.example."),
            "k8s.example");
}

TEST(ClusterDomainTest, OfSeveralListsTheLastCounts) {
  EXPECT_EQ(ClusterDomainIn("search svc.a\nsearch svc.b\n"), "b");
  EXPECT_EQ(ClusterDomainIn("search svc.a\nsearch example.com\n"), "");
}

TEST(ClusterDomainTest, OutsideAClusterThereIsNone) {
  EXPECT_EQ(ClusterDomainIn(""), "");
  EXPECT_EQ(ClusterDomainIn("nameserver 1.1.1.1\nsearch example.com svcs.example.com\n"), "");
  EXPECT_EQ(ClusterDomainIn("# search svc.cluster.local\nsearch\n"), "");
}

}  // namespace
}  // namespace lockstep
