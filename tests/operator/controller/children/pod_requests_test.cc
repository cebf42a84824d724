#include "operator/controller/children/pod_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "api/v1/training_job.h"

namespace lockstep::controller {
namespace {

using api::Json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PodRequestsTest, APodAsksForTheSumOfItsContainersOrItsLargestInitContainer) {
  const Json spec = {
      {"containers",
       {{{"resources", {{"requests", {{"cpu", "1"}}}, {"limits", {{"cpu", "4"}}}}}},
        {{"resources", {{"limits", {{"cpu", "500m"}, {"memory", "what"}}}}}},
        {{"name", "without"}}}},
      {"initContainers", {{{"resources", {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}}}}}}};
  EXPECT_THAT(PodRequests(spec),
              ElementsAre(std::pair<const std::string, double>("cpu", 1.5),
                          std::pair<const std::string, double>("memory", 0x1p30)));
  EXPECT_THAT(PodRequests(Json("no spec")), IsEmpty());
}

Json Asking(const char* name, const Json& quantity) {
  return {{"resources", {{"requests", {{name, quantity}}}}}};
}
Json Sidecar(Json container) {
  container["restartPolicy"] = "Always";
  return container;
}

TEST(PodRequestsTest, APodAsksForItsSidecarsAndOverheadToo) {
  struct Case {
    const char* name;
    Json spec;
    double expected;  // CPUs
  };
  const Json four = Json::array({Asking("cpu", 4)});
  const Case cases[] = {
      {"a sidecar runs beside the containers",
       {{"containers", four}, {"initContainers", {Sidecar(Asking("cpu", 2))}}},
       6},
      {"with the overhead",
       {{"containers", four},
        {"initContainers", {Sidecar(Asking("cpu", 2))}},
        {"overhead", {{"cpu", "1"}}}},
       7},
      {"an init container runs beside the sidecars before it",
       {{"containers", four}, {"initContainers", {Sidecar(Asking("cpu", 2)), Asking("cpu", 5)}}},
       7},
      {"and not beside those after it",
       {{"containers", four}, {"initContainers", {Asking("cpu", 5), Sidecar(Asking("cpu", 2))}}},
       6},
      {"a largest init container with the overhead",
       {{"containers", four},
        {"initContainers", {Asking("cpu", 9)}},
        {"overhead", {{"cpu", "500m"}}}},
       9.5},
      {"the pod's own requests count instead",
       {{"containers", four}, {"resources", {{"requests", {{"cpu", 8}}}}}},
       8},
      {"the pod's own limits only where no container asks",
       {{"containers", four}, {"resources", {{"limits", {{"cpu", 8}}}}}},
       4},
      {"as here",
       {{"containers", {{{"name", "without"}}}}, {"resources", {{"limits", {{"cpu", 8}}}}}},
       8},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(PodRequests(c.spec),
                ElementsAre(std::pair<const std::string, double>("cpu", c.expected)))
        << c.name;
  }
}

}  // namespace
}  // namespace lockstep::controller
