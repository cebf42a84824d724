#include "operator/controller/children/addresses.h"

#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace lockstep::controller {
namespace {

using api::Role;
using testing::Job;

TEST(AddressesTest, DnsNamesAreThoseOfTheHeadlessService) {
  const auto job = Job("mnist").Namespace("ml").Workers(2).BuildWithDefaults();
  EXPECT_EQ(DnsAddresses().Of(job, Role::kWorker, 1).HostPort(),
            "mnist-worker-1.mnist.ml.svc:2222");
  EXPECT_EQ(DnsAddresses("cluster.local").Of(job, Role::kParameterServer, 0).host,
            "mnist-ps-0.mnist.ml.svc.cluster.local");
}

TEST(AddressesTest, AClusterPortOfTheMainContainerOverrides2222) {
  struct Case {
    const char* name;
    api::Json ports;
    int expected;
  };
  const Case cases[] = {
      {"tfjob-port", {{{"name", "tfjob-port"}, {"containerPort", 3333}}}, 3333},
      {"cluster",
       {{{"name", "x"}, {"containerPort", 1}}, {{"name", "cluster"}, {"containerPort", 4444}}},
       4444},
      {"unnamed", {{{"containerPort", 5555}}}, 2222},
      {"not a number", {{{"name", "cluster"}, {"containerPort", "http"}}}, 2222},
  };
  for (const Case& c : cases) {
    api::Json pod_template = testing::Template();
    pod_template["spec"]["containers"][0]["ports"] = c.ports;
    const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template).Build();
    EXPECT_EQ(ClusterPort(job, Role::kWorker), c.expected) << c.name;
    EXPECT_EQ(ClusterPort(job, Role::kChief), 2222) << c.name;
  }
}

TEST(AddressesTest, ASidecarsPortIsIgnored) {
  const api::Json pod_template = {
      {"spec",
       {{"containers",
         {{{"name", "sidecar"}, {"ports", {{{"name", "cluster"}, {"containerPort", 1}}}}},
          {{"name", "pytorch"}, {"ports", {{{"name", "cluster"}, {"containerPort", 2}}}}}}}}}};
  const auto job = Job("j").Workers(1).PodTemplate(Role::kWorker, pod_template).Build();
  EXPECT_EQ(ClusterPort(job, Role::kWorker), 2);
}

}  // namespace
}  // namespace lockstep::controller
