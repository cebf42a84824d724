#include "operator/kube/change_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/hooked_client.h"

namespace lockstep::kube {
namespace {

using ::testing::HasSubstr;
using testing::HookedClient;

const Kind kConfigMapKind{"", "v1", "ConfigMap", "configmaps"};
const Key kKey{"n", "c"};

class ChangeObjectTest : public ::testing::Test {
 protected:
  ChangeObjectTest() {
    client_.Add(kConfigMapKind,
                {{"metadata", {{"name", "c"}, {"namespace", "n"}}}, {"data", {{"of", "others"}}}});
  }

  absl::Status SetMine(const std::string& value) {
    return ChangeObject(client_, kConfigMapKind, kKey,
                        [&](Object& object) { object["data"]["mine"] = value; });
  }
  // Has somebody else write the object before each of the next `times` updates.
  void WriteInBetween(int times) {
    left_ = times;
    client_.SetBefore([this](const HookedClient::Call& call) {
      if (call.verb == "update" && left_-- > 0) {
        client_.Modify(kConfigMapKind, kKey,
                       [this](Object& object) { object["data"]["of"] = std::to_string(left_); });
      }
      return absl::OkStatus();
    });
  }
  Object Data() { return client_.Objects(kConfigMapKind).front().at("data"); }

  HookedClient client_;
  int left_ = 0;  // writes in between
};

TEST_F(ChangeObjectTest, ChangesOneFieldAndKeepsTheOthers) {
  ASSERT_TRUE(SetMine("1").ok());
  EXPECT_EQ(Data(), (Object{{"mine", "1"}, {"of", "others"}}));
}

TEST_F(ChangeObjectTest, WritesNothingIfNothingChanges) {
  ASSERT_TRUE(SetMine("1").ok());
  ASSERT_TRUE(SetMine("1").ok());
  EXPECT_EQ(client_.Count("update", "ConfigMap"), 1);
}

TEST_F(ChangeObjectTest, ChangesWhatSomebodyElseHasWrittenInBetween) {
  WriteInBetween(kMostTries - 1);
  ASSERT_TRUE(SetMine("1").ok());
  EXPECT_EQ(Data(), (Object{{"mine", "1"}, {"of", "0"}}));
}

TEST_F(ChangeObjectTest, GivesUpWhereOthersWriteAllTheTime) {
  WriteInBetween(1000);
  EXPECT_TRUE(absl::IsAborted(SetMine("1")));
  EXPECT_EQ(client_.Count("update", "ConfigMap"), kMostTries);
  EXPECT_FALSE(Data().contains("mine"));
}

TEST_F(ChangeObjectTest, OtherErrorsAreReturnedAtOnce) {
  client_.SetBefore([](const HookedClient::Call& call) {
    return call.verb == "update" ? absl::PermissionDeniedError("no") : absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsPermissionDenied(SetMine("1")));
  EXPECT_EQ(client_.Count("update", "ConfigMap"), 1);
  client_.Remove(kConfigMapKind, kKey);
  EXPECT_TRUE(absl::IsNotFound(SetMine("1")));
}

TEST_F(ChangeObjectTest, APartThatWasNotReadIsNotWritten) {
  client_.Modify(kConfigMapKind, kKey, [](Object& object) { object["spec"] = "1 MB of text"; });
  const absl::Status changed = SetMine("1");
  EXPECT_TRUE(absl::IsFailedPrecondition(changed));
  EXPECT_THAT(std::string(changed.message()),
              HasSubstr("configmaps c: spec: found 1 MB of text, expected an object"));
  EXPECT_EQ(client_.Count("update", "ConfigMap"), 0);
}

}  // namespace
}  // namespace lockstep::kube
