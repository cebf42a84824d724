#include "operator/local/volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "operator/local/memory_client.h"
#include "tests/support/fake_clock.h"
#include "tests/support/temp_directory.h"

namespace lockstep::local {
namespace {

using kube::Object;
using ::testing::HasSubstr;

Object PodWith(const Object& volume) {
  return {{"metadata", {{"name", "p"}, {"namespace", "default"}}},
          {"spec", {{"containers", Object::array()}, {"volumes", Object::array({volume})}}}};
}

TEST(VolumesTest, NoNameLeadsOutOfTheWorkDirectory) {
  const VolumeOptions options{"/work-dir", "/", {}};
  for (const char* claim : {"..", "../x", "a/../../b", "/etc"}) {
    const Object pod = PodWith({{"name", "v"}, {"persistentVolumeClaim", {{"claimName", claim}}}});
    EXPECT_THAT(LocateVolumes(pod, options).status().ToString(), HasSubstr(claim));
  }
  EXPECT_FALSE(LocateVolumes(PodWith({{"name", "../v"}}), options).ok());
  EXPECT_TRUE(LocateVolumes(PodWith({{"name", "v"}}), options).ok());
  for (const char* sub_path : {"../x", "/etc"}) {
    const Object container = {
        {"name", "c"},
        {"volumeMounts", {{{"name", "v"}, {"mountPath", "/data"}, {"subPath", sub_path}}}}};
    EXPECT_THAT(MapMounts(container, {{"v", "/srv"}}).status().ToString(), HasSubstr("subPath"));
  }
}

TEST(VolumesTest, ASecretsFilesAreItsOwnersAndStayInTheirVolume) {
  const TempDirectory directory;
  testing::FakeClock clock;
  MemoryClient client(clock, {});
  ASSERT_TRUE(
      client
          .Create(kube::kSecretKind, {{"apiVersion", "v1"},
                                      {"kind", "Secret"},
                                      {"metadata", {{"name", "s"}, {"namespace", "default"}}},
                                      {"data", {{"key", "dmFsdWU="}}}})
          .ok());
  const std::map<std::string, std::string> locations = {{"v", directory.At("v")}};
  Object source = {{"secretName", "s"}};
  ASSERT_TRUE(FillVolumes(PodWith({{"name", "v"}, {"secret", source}}), locations, client).ok());
  struct stat status{};
  ASSERT_EQ(::stat(directory.At("v/key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_size, 5);
  source["items"] = {{{"key", "key"}, {"path", "../outside"}}};
  EXPECT_THAT(
      FillVolumes(PodWith({{"name", "v"}, {"secret", source}}), locations, client).ToString(),
      HasSubstr("../outside"));
}

}  // namespace
}  // namespace lockstep::local
