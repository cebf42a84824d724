#include "operator/local/volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

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

TEST(VolumesTest, AnEmptyDirIsNotTheClaimOfItsName) {
  const Object empty = {{"name", "data"}, {"emptyDir", Object::object()}};
  const Object claim = {{"name", "set"}, {"persistentVolumeClaim", {{"claimName", "data"}}}};
  const Object other = {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "other"}}}};
  VolumeOptions options{.work_dir = "/w", .current_dir = "/", .folders = {}};
  const auto place = [&](const Object& volume) {
    const auto located = LocateVolumes(PodWith(volume), options);
    return located.ok() ? located->at(volume["name"]) : std::string(located.status().message());
  };
  EXPECT_EQ(place(empty), "/w/volumes/data");
  options.claims = ClaimsOf({PodWith(empty), PodWith(claim), PodWith(other)});  // of any pod
  EXPECT_EQ(place(claim), "/w/volumes/data");
  EXPECT_EQ(place(empty), "/w/volumes/emptyDir/data");
  options.folders = {{"data", "/mine"}};
  EXPECT_EQ(place(claim), "/mine");
  EXPECT_EQ(place(empty), "/w/volumes/emptyDir/data");
  EXPECT_EQ(place(other), "/w/volumes/other");
  EXPECT_EQ(place({{"name", "data"}, {"hostPath", {{"path", "/there"}}}}), "/there");
  EXPECT_EQ(place({{"name", "data"}, {"configMap", {{"name", "c"}}}}), "/w/config/p/data");
  EXPECT_EQ(place({{"name", "data"}, {"nfs", {{"server", "s"}}}}), "/mine") << "it has no other";
  options.folders = {{"set", "/mine"}};
  EXPECT_EQ(place(claim), "/mine");
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
  ASSERT_TRUE(
      FillVolumes(PodWith({{"name", "v"}, {"secret", source}}), {}, locations, client).ok());
  struct stat status{};
  ASSERT_EQ(::stat(directory.At("v/key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_EQ(status.st_size, 5);
  source["defaultMode"] = 0755;
  ASSERT_TRUE(
      FillVolumes(PodWith({{"name", "v"}, {"secret", source}}), {}, locations, client).ok());
  ASSERT_EQ(::stat(directory.At("v/key").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  source["items"] = {{{"key", "key"}, {"path", "../outside"}}};
  EXPECT_THAT(
      FillVolumes(PodWith({{"name", "v"}, {"secret", source}}), {}, locations, client).ToString(),
      HasSubstr("../outside"));
}

TEST(VolumesTest, AMountedPartThatIsNotThereIsMade) {
  const TempDirectory directory;
  EXPECT_TRUE(MakePart(directory.At("v/runs/1")).ok());
  EXPECT_TRUE(std::filesystem::is_directory(directory.At("v/runs/1")));
  WriteTextFile(directory.At("v/file"), "mine");
  EXPECT_TRUE(MakePart(directory.At("v/file")).ok());
  EXPECT_EQ(ReadTextFile(directory.At("v/file")), "mine");
  EXPECT_THAT(MakePart(directory.At("v/file/below")).ToString(), HasSubstr("v/file/below"));
}

TEST(VolumesTest, OnlyMountedPartsOfVolumesThatMayLackThemAreToBeMade) {
  Object pod = PodWith({{"name", "v"}, {"emptyDir", Object::object()}});
  pod["spec"]["volumes"].push_back({{"name", "config"}, {"configMap", {{"name", "c"}}}});
  const Object container = {
      {"name", "c"},
      {"volumeMounts",
       {{{"name", "v"}, {"mountPath", "/whole"}},
        {{"name", "v"}, {"mountPath", "/out"}, {"subPath", "runs/1"}},
        {{"name", "config"}, {"mountPath", "/etc/app.yaml"}, {"subPath", "app.yaml"}}}}};
  EXPECT_THAT(MountedParts(pod, container, {{"v", "/w/v"}, {"config", "/w/c"}}),
              ::testing::ElementsAre("/w/v/runs/1"));
}

TEST(VolumesTest, AHostPathThatCannotBeLookedUpIsNamed) {
  const TempDirectory directory;
  std::filesystem::create_symlink("loop", directory.At("loop"));
  testing::FakeClock clock;
  MemoryClient client(clock, {});
  const auto filling = [&](const std::string& path) {
    const Object pod = PodWith({{"name", "v"}, {"hostPath", {{"path", path}}}});
    return std::string(FillVolumes(pod, {}, {{"v", path}}, client).message());
  };
  EXPECT_THAT(filling(directory.At("loop")),
              HasSubstr("hostPath " + directory.At("loop") + " cannot be looked up: Too many"));
  EXPECT_THAT(filling(directory.At("none")), HasSubstr("/none does not exist"));
  EXPECT_EQ(filling(directory.path()), "");
}

TEST(VolumesTest, NoItemTakesTheNameOfAnother) {
  const TempDirectory directory;
  testing::FakeClock clock;
  MemoryClient client(clock, {});
  ASSERT_TRUE(client
                  .Create(kConfigMapKind, {{"apiVersion", "v1"},
                                           {"kind", "ConfigMap"},
                                           {"metadata", {{"name", "c"}, {"namespace", "default"}}},
                                           {"data", {{"one", "1"}, {"two", "2"}}}})
                  .ok());
  const Object source = {
      {"name", "c"},
      {"items", {{{"key", "one"}, {"path", "a.new"}}, {{"key", "two"}, {"path", "a"}}}}};
  const std::map<std::string, std::string> locations = {{"v", directory.At("v")}};
  ASSERT_TRUE(
      FillVolumes(PodWith({{"name", "v"}, {"configMap", source}}), {}, locations, client).ok());
  EXPECT_EQ(ReadTextFile(directory.At("v/a.new")), "1");
  EXPECT_EQ(ReadTextFile(directory.At("v/a")), "2");
}

class ConfigVolumeTest : public ::testing::Test {
 protected:
  Object ConfigMap(const std::string& name, const Object& data) {
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", {{"name", name}, {"namespace", "default"}}},
            {"data", data}};
  }
  Object PodThatMounts(const std::string& pod, const std::string& config_map) {
    Object object = PodWith({{"name", "v"}, {"configMap", {{"name", config_map}}}});
    object["metadata"]["name"] = pod;
    return object;
  }
  // Returns the volume's folder.
  std::string Fill(const Object& pod) {
    const auto locations = LocateVolumes(pod, options_);
    const absl::Status filled =
        locations.ok() ? FillVolumes(pod, options_, *locations, client_) : locations.status();
    EXPECT_TRUE(filled.ok()) << filled;
    return filled.ok() ? locations->at("v") : "";
  }

  const TempDirectory directory_;
  testing::FakeClock clock_;
  MemoryClient client_{clock_, {}};
  VolumeOptions options_{directory_.path(), "/", {}};
};

TEST_F(ConfigVolumeTest, AFolderThatTheUserNamesIsTheContent) {
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("settings", {{"key", "theirs"}})).ok());
  options_.folders = {{"v", directory_.At("mine")}};
  std::filesystem::create_directory(directory_.At("mine"));
  WriteTextFile(directory_.At("mine/key"), "mine");
  EXPECT_EQ(Fill(PodThatMounts("p", "settings")), directory_.At("mine"));
  EXPECT_EQ(ReadTextFile(directory_.At("mine/key")), "mine");
}

TEST_F(ConfigVolumeTest, FilesHaveTheModesThatTheirVolumeSays) {
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("a", {{"run", ""}, {"text", ""}})).ok());
  Object pod = PodThatMounts("p", "a");
  Object& source = pod["spec"]["volumes"][0]["configMap"];
  const auto mode_of = [](const std::string& path) {
    struct stat status{};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 0700;  // the umask says the rest
  };
  source["defaultMode"] = 0755;
  EXPECT_EQ(mode_of(Fill(pod) + "/run"), 0700U);
  source["items"] = {{{"key", "run"}, {"path", "run"}},
                     {{"key", "text"}, {"path", "text"}, {"mode", 0400}}};
  const std::string folder = Fill(pod);
  EXPECT_EQ(mode_of(folder + "/run"), 0700U);
  EXPECT_EQ(mode_of(folder + "/text"), 0400U);
  source["defaultMode"] = 755;  // 01363
  EXPECT_THAT(FillVolumes(pod, options_, {{"v", directory_.At("v")}}, client_).ToString(),
              HasSubstr("volume \"v\": a file's mode: found 755, expected 0 to 511"));
}

TEST_F(ConfigVolumeTest, WhatPodsLackIsSaidBeforeTheyStart) {
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("a", {{"key", ""}})).ok());
  const auto lacks = [&](const Object& pod) {
    return CheckSources({PodThatMounts("first", "a"), pod}, options_, client_).ToString();
  };
  EXPECT_EQ(lacks(PodThatMounts("p", "a")), "OK");
  EXPECT_THAT(lacks(PodThatMounts("p", "b")),
              HasSubstr("pod p: volume \"v\": no ConfigMap \"b\" in namespace default"));
  Object pod = PodThatMounts("p", "b");
  pod["spec"]["volumes"][0]["configMap"]["optional"] = true;
  EXPECT_EQ(lacks(pod), "OK");
  pod = PodThatMounts("p", "a");
  pod["spec"]["volumes"][0]["configMap"]["items"] = {{{"key", "other"}, {"path", "f"}}};
  EXPECT_THAT(lacks(pod), HasSubstr("pod p: volume \"v\": no key other"));
  options_.folders = {{"v", directory_.path()}};
  EXPECT_EQ(lacks(PodThatMounts("p", "b")), "OK") << "the user's folder is the content";
  EXPECT_FALSE(std::filesystem::exists(directory_.At("config"))) << "nothing is written";
}

TEST_F(ConfigVolumeTest, AFolderThatAnyPodMakesIsNotMissing) {
  const auto pod_at = [&](const std::string& path, const std::string& type) {
    return PodWith({{"name", "v"}, {"hostPath", {{"path", directory_.At(path)}, {"type", type}}}});
  };
  const Object maker = pod_at("new/folder", "DirectoryOrCreate");
  const auto check = [&](const Object& pod) {
    return CheckSources({pod, maker}, options_, client_).ToString();
  };
  EXPECT_EQ(check(pod_at("new/folder", "Directory")), "OK");
  EXPECT_EQ(check(pod_at("new", "")), "OK");
  EXPECT_THAT(check(pod_at("new/fold", "")), HasSubstr("new/fold does not exist"));
  EXPECT_THAT(check(pod_at("new/folder/below", "")), HasSubstr("below does not exist"));
}

TEST_F(ConfigVolumeTest, PodsWhoseVolumesShareANameKeepTheirOwnSources) {
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("a", {{"key", "a"}, {"old", ""}})).ok());
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("b", {{"key", "b"}})).ok());
  const std::string of_a = Fill(PodThatMounts("job-worker-0", "a"));
  const std::string of_b = Fill(PodThatMounts("job-evaluator-0", "b"));
  EXPECT_EQ(ReadTextFile(of_a + "/key"), "a");
  EXPECT_EQ(ReadTextFile(of_b + "/key"), "b");
  EXPECT_FALSE(std::filesystem::exists(of_b + "/old"));
}

TEST_F(ConfigVolumeTest, ARemovedKeyIsGoneFromTheNextPodOfThatName) {
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("a", {{"key", "1"}, {"old", ""}})).ok());
  const std::string folder = Fill(PodThatMounts("p", "a"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/old"));
  ASSERT_TRUE(client_.Delete(kConfigMapKind, {"default", "a"}, {}).ok());
  ASSERT_TRUE(client_.Create(kConfigMapKind, ConfigMap("a", {{"key", "2"}})).ok());
  EXPECT_EQ(Fill(PodThatMounts("p", "a")), folder);
  EXPECT_EQ(ReadTextFile(folder + "/key"), "2");
  EXPECT_FALSE(std::filesystem::exists(folder + "/old"));
}

}  // namespace
}  // namespace lockstep::local
