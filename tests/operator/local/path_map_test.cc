#include "operator/local/path_map.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace lockstep::local {
namespace {

PathMap Paths() {
  PathMap paths;
  paths.Add("/data", "/srv/u/d");
  paths.Add("/data/deep/", "/srv/deep");
  return paths;
}

TEST(PathMapTest, RewritesPathsWhereverTheyStand) {
  EXPECT_EQ(Paths().Rewrite("/data"), "/srv/u/d");
  EXPECT_EQ(Paths().Rewrite("--dir=/data/x:/data"), "--dir=/srv/u/d/x:/srv/u/d");
  EXPECT_EQ(Paths().Rewrite("cat \"/data/a\" > /data/b;"), "cat \"/srv/u/d/a\" > /srv/u/d/b;");
}

TEST(PathMapTest, TheLongestMountWins) {
  EXPECT_EQ(Paths().Rewrite("/data/deep/x"), "/srv/deep/x");
  EXPECT_EQ(Paths().Rewrite("/data/deeper"), "/srv/u/d/deeper");
}

TEST(PathMapTest, AMountAtItsOwnPathIsNotThatAboveIt) {
  PathMap paths;
  paths.Add("/mnt", "/w/volumes/work");
  paths.Add("/mnt/sets", "/mnt/sets");
  EXPECT_EQ(paths.Rewrite("--data=/mnt/sets/x --out=/mnt/out"),
            "--data=/mnt/sets/x --out=/w/volumes/work/out");
}

TEST(PathMapTest, LeavesOtherNamesAlone) {
  for (const char* text : {"/database", "/mnt/data", "s3://b/data", "data", "/data.old", ""}) {
    EXPECT_EQ(Paths().Rewrite(text), text);
  }
}

TEST(PathMapTest, JsonStaysJson) {
  PathMap paths;
  paths.Add("/data", "/home/the \"user\"");
  EXPECT_EQ(paths.Rewrite(R"({"b":"/data/x","a":1})"), R"({"b":"/home/the \"user\"/x","a":1})");
}

TEST(PathMapTest, APathThatAShellTakesApartHasAnotherNameInTexts) {
  PathMap paths;
  paths.Add("/data", "/a b");
  paths.Add("/plain", "/srv/plain");
  paths.Add("/caf", "/caf\xe9");
  paths.Add("/home/x y", "/home/x y");
  const auto link = [](const std::string& path) -> absl::StatusOr<std::string> {
    return path == "/a b" ? "/links/1" : path == "/caf\xe9" ? "/links/2" : "none";
  };
  ASSERT_TRUE(paths.UseLinks(link).ok());
  EXPECT_EQ(paths.Rewrite("cat /data/x > /plain/y"), "cat /links/1/x > /srv/plain/y");
  EXPECT_EQ(paths.Rewrite("ls /caf '/home/x y/z'"), "ls /links/2 '/home/x y/z'");
  EXPECT_EQ(paths.Rewrite(R"(["/data/x", "/caf/x"])"), R"(["/a b/x", "/links/2/x"])")
      << "no shell reads it, but it must be UTF-8";
  PathMap others;
  others.Add("/data", "/a;b");
  const auto fails = [](const std::string&) -> absl::StatusOr<std::string> {
    return absl::FailedPreconditionError("full");
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(others.UseLinks(fails)));
}

TEST(PathMapTest, OfJsonOnlyStringsAreRewritten) {
  EXPECT_EQ(Paths().Rewrite(R"({ "/data" : ["/data", "x\"/data/", "\/data/\u0078"], "n": 1.50 })"),
            R"({ "/data" : ["/srv/u/d", "x\"/srv/u/d/", "/srv/u/d/x"], "n": 1.50 })");
  EXPECT_EQ(Paths().Rewrite(R"(["/data")"), R"(["/srv/u/d")") << "it is no JSON";
}

// Minutes, if each field were compared with those before it.
TEST(PathMapTest, JsonOfManyFieldsIsRewrittenAtOnce) {
  std::string fields = "{";
  for (int i = 0; i < 200'000; ++i) fields += "\"" + std::to_string(i) + "\":{},";
  EXPECT_EQ(Paths().Rewrite(fields + R"("p":"/data"})"), fields + R"("p":"/srv/u/d"})");
}

TEST(PathMapTest, JsonOfAnyDepthIsRewritten) {
  for (const std::size_t levels : {1U, 60U, 1'000'000U}) {
    const std::string before(levels, '['), after(levels, ']');
    EXPECT_EQ(Paths().Rewrite(before + "\"/data/x\"" + after), before + "\"/srv/u/d/x\"" + after)
        << levels;
  }
}

}  // namespace
}  // namespace lockstep::local
