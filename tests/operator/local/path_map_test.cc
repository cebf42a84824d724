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

TEST(PathMapTest, JsonOfAnyDepthIsRewritten) {
  for (const std::size_t levels : {1U, 60U, 1'000'000U}) {
    const std::string before(levels, '['), after(levels, ']');
    EXPECT_EQ(Paths().Rewrite(before + "\"/data/x\"" + after), before + "\"/srv/u/d/x\"" + after)
        << levels;
  }
}

}  // namespace
}  // namespace lockstep::local
