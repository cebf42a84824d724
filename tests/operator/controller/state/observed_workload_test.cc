#include "operator/controller/state/observed_workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  const Object workload = AdmittedWorkload();
  const kube::FieldMask keep = WorkloadFields();
  const auto read = kube::ParseObject(Object({{"object", workload}}).dump(), "object", &keep);
  ASSERT_TRUE(read.ok()) << read.status();
  const Object& kept = read->at("object");
  EXPECT_FALSE(kept.at("spec").at("podSets")[0].contains("template"));
  EXPECT_EQ(ReadWorkload(kept), ReadWorkload(workload));
  EXPECT_EQ(ReadWorkload(kept).granted.at(Role::kWorker).labels.at("provisioned"), "yes");
  EXPECT_EQ(kube::KeyOf(kept), kube::KeyOf(workload));
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
