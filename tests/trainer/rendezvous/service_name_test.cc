#include "trainer/rendezvous/service_name.h"

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

constexpr char kPod[] = "mnist-worker-0.mnist.vision.svc";
constexpr char kOfAKubelet[] =
    "search vision.svc.cluster.local svc.cluster.local cluster.local example.com\n"
    "nameserver 10.96.0.10\n"
    "options ndots:5\n";

TEST(AbsoluteServiceNameTest, APodsNameGetsTheClustersDomainAndTheRootsDot) {
  EXPECT_EQ(AbsoluteServiceName(kPod, kOfAKubelet),
            "mnist-worker-0.mnist.vision.svc.cluster.local.");
  EXPECT_EQ(AbsoluteServiceName(kPod, "search vision.svc.k8s.example. svc.k8s.example.\n"),
            "mnist-worker-0.mnist.vision.svc.k8s.example.");
}

TEST(AbsoluteServiceNameTest, TheLastSearchListCounts) {
  EXPECT_EQ(AbsoluteServiceName(kPod, "search svc.first\nsearch\tsvc.second"),
            "mnist-worker-0.mnist.vision.svc.second.");
  EXPECT_EQ(AbsoluteServiceName(kPod, "search svc.first\nsearch example.com\n"), kPod);
}

TEST(AbsoluteServiceNameTest, WithoutAClustersDomainTheNameStays) {
  for (const char* text : {"", "nameserver 10.0.0.1\n", "search example.com\n", "search svc.\n",
                           "search svc\n", "# search svc.cluster.local\n", "search\n"}) {
    EXPECT_EQ(AbsoluteServiceName(kPod, text), kPod) << text;
  }
}

TEST(AbsoluteServiceNameTest, OtherNamesStay) {
  for (const char* host : {"127.0.0.1", "[fd00::5]", "localhost", "node-7", "node-7.example.com",
                           "mnist-worker-0.mnist.vision.svc.cluster.local", "svc", ""}) {
    EXPECT_EQ(AbsoluteServiceName(host, kOfAKubelet), host);
  }
}

}  // namespace
}  // namespace lockstep::train
