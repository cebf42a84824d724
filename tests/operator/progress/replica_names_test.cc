#include "operator/progress/replica_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::progress {
namespace {

using ::testing::ElementsAre;

TEST(ReplicaNamesTest, ProcessesAndPodsAreDistinguishedFromOtherTexts) {
  for (const char* name :
       {"worker 1", "chief 0", "ps 12", "evaluator 0", "worker 9999 process 7"}) {
    EXPECT_TRUE(IsProcessName(name)) << name;
    EXPECT_FALSE(IsPodName(name)) << name;
  }
  for (const char* name : {"worker-1", "ps-12"}) {
    EXPECT_TRUE(IsPodName(name)) << name;
    EXPECT_FALSE(IsProcessName(name)) << name;
  }
  for (const char* name : {"", "worker", "worker ", "worker-", "worker 1 ", "worker 1 process ",
                           "worker x", "boss 1", "worker 123456", "worker--1", " process 1"}) {
    EXPECT_FALSE(IsProcessName(name) || IsPodName(name)) << name;
  }
}

TEST(ReplicaNamesTest, OfAnAnswerTheFirst256NamesAreKept) {
  google::protobuf::RepeatedPtrField<std::string> said;
  for (int i = 0; i < 30'000; ++i) said.Add("");
  said.Add("worker-7" + std::string(10'000, '7'));
  said.Add("worker-7");
  EXPECT_THAT(NamesIn(said, IsPodName), ElementsAre("worker-7"));
  for (int i = 0; i < 1000; ++i) said.Add("ps-" + std::to_string(i));
  EXPECT_EQ(NamesIn(said, IsPodName).size(), 256U);
}

TEST(ReplicaNamesTest, AProcessBelongsToAPod) {
  EXPECT_EQ(PodOf("worker 1"), "worker-1");
  EXPECT_EQ(PodOf("worker 1 process 2"), "worker-1");
}

}  // namespace
}  // namespace lockstep::progress
