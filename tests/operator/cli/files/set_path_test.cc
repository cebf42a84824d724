#include "operator/cli/files/set_path.h"

#include <gmock/gmock.h>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

Json Set(const std::string& assignment, Json document = {{"spec", {{"list", {1, 2}}}}}) {
  const absl::Status status = ApplySet(assignment, document);
  return status.ok() ? document["spec"] : Json(std::string(status.message()));
}

TEST(SetPathTest, ValuesAreYaml) {
  EXPECT_EQ(Set("spec.a=3")["a"], 3);
  EXPECT_EQ(Set("spec.a=\"3\"")["a"], "3");
  EXPECT_EQ(Set("spec.a=0.5")["a"], 0.5);
  EXPECT_EQ(Set("spec.a=true")["a"], true);
  EXPECT_EQ(Set("spec.a=text=with=equals")["a"], "text=with=equals");
  EXPECT_EQ(Set("spec.a=[1, {b: c}]")["a"], (Json{1, {{"b", "c"}}}));
  EXPECT_EQ(Set("spec.a=")["a"], "");
}

TEST(SetPathTest, MakesWhatIsAbsentAndIndexesLists) {
  EXPECT_EQ(Set("spec.a.b.c=1")["a"]["b"]["c"], 1);
  EXPECT_EQ(Set("spec.list[0]=9")["list"], (Json{9, 2}));
  EXPECT_EQ(Set("spec.list.2=3")["list"], (Json{1, 2, 3}));
  EXPECT_EQ(Set("spec.a\\.b=1")["a.b"], 1);
}

TEST(SetPathTest, FaultsNameThePath) {
  EXPECT_THAT(Set("spec.list[5]=1").get<std::string>(),
              HasSubstr("spec.list: found \"5\", expected an index from 0 to 2"));
  EXPECT_THAT(Set("spec.list[0].x=1").get<std::string>(), HasSubstr("spec.list.0 is 1"));
  EXPECT_THAT(Set("status.x=1").get<std::string>(), HasSubstr("below spec or metadata"));
  EXPECT_THAT(Set("=1").get<std::string>(), HasSubstr("expected PATH=VALUE"));
}

}  // namespace
}  // namespace lockstep::cli
