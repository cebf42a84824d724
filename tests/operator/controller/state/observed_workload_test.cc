#include "operator/controller/state/observed_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/v1/names.h"
#include "operator/controller/children/kueue.h"
#include "operator/kube/rest/object_json.h"
#include "tests/operator/controller/queued_job.h"

namespace lockstep::controller {
namespace {

using api::Role;
using kube::Object;
using testing::AdmittedStatus;
using testing::Conditions;
using ::testing::HasSubstr;
using testing::kKueue;
using testing::Queued;

Object AdmittedWorkload() {
  Object workload = BuildWorkload(Queued().BuildWithDefaults(), kKueue, std::nullopt);
  workload["status"] = AdmittedStatus(2);
  workload["status"]["admissionChecks"] = {
      {{"name", "provision"},
       {"message", "done"},
       {"podSetUpdates", {{{"name", "worker"}, {"labels", {{"provisioned", "yes"}}}}}}}};
  return workload;
}

TEST(ObservedWorkloadTest, WhatIsNotEvenParsedIsNotMissed) {
  Object workload = AdmittedWorkload();
  Object& pod = workload["spec"]["podSets"][0]["template"]["spec"];
  pod["initContainers"] = pod["containers"];
  pod["initContainers"][0]["restartPolicy"] = "Always";
  pod["overhead"] = pod["resources"]["limits"] = {{"cpu", "1"}};
  pod["nodeSelector"] = {{"a", "b"}};
  pod["runtimeClassName"] = "r";
  pod["resourceClaims"] = {{{"name", "gpu"}}};
  workload["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = {
      {"levels", {"rack"}}, {"domains", {{{"values", {"r1"}}, {"count", 2}}}}};
  workload["status"]["reclaimablePods"] = {{{"name", "worker"}, {"count", 1}}};
  workload["spec"]["priorityClassRef"] = {
      {"group", "kueue.x-k8s.io"}, {"kind", "WorkloadPriorityClass"}, {"name", "high"}};
  const kube::FieldMask keep = WorkloadFields();
  for (const char* templates : {"sha256:1", "1"}) {
    workload["metadata"]["annotations"][api::kAnnotationTemplates] = templates;
    const auto read = kube::ParseObject(Object({{"object", workload}}).dump(), "object", &keep);
    ASSERT_TRUE(read.ok()) << read.status();
    const Object& kept = read->at("object");
    const Object& kept_pod = kept.at("spec").at("podSets")[0].at("template").at("spec");
    EXPECT_FALSE(kept_pod.at("containers")[0].contains("image"));
    EXPECT_EQ(ReadWorkload(kept), ReadWorkload(workload));
    EXPECT_TRUE(ReadWorkload(kept).granted.at(Role::kWorker).has_topology);
    EXPECT_EQ(ReadWorkload(kept).reclaimable_workers, 1);
    EXPECT_EQ(ReadWorkload(kept).priority_class, "high");
    EXPECT_EQ(ReadWorkload(kept).granted.at(Role::kWorker).labels.at("provisioned"), "yes");
    EXPECT_EQ(kube::KeyOf(kept), kube::KeyOf(workload));
  }
}

TEST(ObservedWorkloadTest, WhatIsCountedIsTheSameInAnyForm) {
  const Object sets = {
      {{"name", "worker"},
       {"template",
        {{"spec",
          {{"containers",
            {{{"name", "main"},
              {"resources", {{"limits", {{"cpu", "1500m"}, {"x/gpu", 8}}}}}}}}}}}}}};
  const auto differs = [&](const char* path, const Object& value) {
    Object other = sets;
    other[Object::json_pointer(path)] = value;
    return ResourcesHash(other) != ResourcesHash(sets);
  };
  const char kCpu[] = "/0/template/spec/containers/0/resources/limits/cpu";
  const char kGpu[] = "/0/template/spec/containers/0/resources/limits/x~1gpu";
  EXPECT_FALSE(differs(kCpu, 1.5));
  EXPECT_TRUE(differs(kCpu, "1501m"));
  EXPECT_FALSE(differs(kGpu, "8"));
  EXPECT_TRUE(differs(kGpu, "0"));
  EXPECT_TRUE(differs(kGpu, -8)) << "no quantity of a pod";
  EXPECT_TRUE(differs(kGpu, "1e400"));
  EXPECT_FALSE(differs("/0/template/spec/containers/0/ports", {{{"protocol", "TCP"}}}));
  EXPECT_FALSE(differs("/0/template/spec/containers/0/resources/requests", Object::object()));
  EXPECT_TRUE(differs("/0/template/spec/containers/0/resources/requests", {{"cpu", 1}}));
  EXPECT_TRUE(differs("/0/template/spec/initContainers", {{{"name", "init"}}}));
  EXPECT_TRUE(differs("/0/template/spec/nodeSelector", {{"a", "b"}}));
  EXPECT_TRUE(differs("/0/template/spec/overhead", {{"cpu", 1}}));
  EXPECT_TRUE(differs("/0/name", "chief"));
}

// A tenant may give any object our label.
TEST(ObservedWorkloadTest, NoTextIsHeldWithoutABound) {
  const std::string text(1'000'000, 'x');
  Object workload = AdmittedWorkload();
  for (auto& [key, value] : workload["metadata"]["annotations"].items()) value = text;
  for (const char* member : {"queueName", "priorityClassName"}) workload["spec"][member] = text;
  workload["status"]["conditions"] =
      Conditions({{"QuotaReserved", true}, {"Admitted", true}, {"Evicted", true}});
  for (Object& condition : workload["status"]["conditions"]) condition["message"] = text;
  const ObservedWorkload read = ReadWorkload(workload);
  EXPECT_TRUE(read.admitted && read.evicted);
  for (const std::string* held : {&read.templates, &read.queue, &read.priority_class}) {
    EXPECT_EQ(held->size(), 253U);
    EXPECT_LT(held->capacity(), 1000U);
  }
  EXPECT_THAT(read.eviction, HasSubstr("Preempted: xxx"));
  EXPECT_LT(read.eviction.capacity(), 17'000U);
}

TEST(ObservedWorkloadTest, AnAdmissionThatGrantsTooMuchToHoldIsNone) {
  Object many = Object::object();
  for (int i = 0; i < 1000; ++i) many["example.com/" + std::to_string(i)] = "x";
  Object tolerations = Object::array();
  for (int i = 0; i < 1000; ++i) tolerations.push_back({{"key", std::to_string(i)}});
  const auto expect_none = [](const Object& workload) {
    const ObservedWorkload read = ReadWorkload(workload);
    EXPECT_TRUE(read.reserved);
    EXPECT_FALSE(read.admitted);
    EXPECT_TRUE(read.granted.empty());
    EXPECT_THAT(read.eviction, HasSubstr("bytes of JSON, expected at most 8192"));
  };
  Object flavors = AdmittedWorkload();
  flavors["status"]["admission"]["podSetAssignments"][0]["flavors"] = many;
  expect_none(flavors);
  for (const char* member : {"nodeSelector", "labels", "annotations"}) {
    Object workload = AdmittedWorkload();
    workload["status"]["admissionChecks"][0]["podSetUpdates"][0][member] = many;
    expect_none(workload);
  }
  Object tolerating = AdmittedWorkload();
  tolerating["status"]["admissionChecks"][0]["podSetUpdates"][0]["tolerations"] = tolerations;
  expect_none(tolerating);
}

}  // namespace
}  // namespace lockstep::controller
