#include "trainer/train/initial_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"
#include "tests/trainer/train/rank.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/train/snapshot.h"

namespace lockstep::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// With running statistics, which are no parameters.
api::TrainingSpec NormalizedTraining() {
  api::TrainingSpec training = SmallTraining();
  api::Json layers = *training.model.layers;
  layers.insert(layers.begin() + 1, api::Json{{"type", "BatchNormalization"}});
  training.model.layers = layers;
  return training;
}

std::vector<NamedTensor> TensorsOf(Session& session) {
  return MakeSnapshot(session, {.step = 0}, Time()).model;
}

// The model's tensors with 0.5 in each place.
std::vector<NamedTensor> Halves(Session& session) {
  std::vector<NamedTensor> tensors = TensorsOf(session);
  for (NamedTensor& tensor : tensors) std::ranges::fill(tensor.data, 0.5f);
  return tensors;
}

class InitialWeightsTest : public ::testing::TestWithParam<std::string> {
 protected:
  InitialWeightsTest() : session_(SessionOf(NormalizedTraining())) {}

  static std::unique_ptr<Session> SessionOf(const api::TrainingSpec& training) {
    return *Session::Create({.training = training, .backend = GetParam()});
  }

  std::string Write(const std::vector<NamedTensor>& tensors) {
    std::string path = folder_.At("weights.safetensors");
    const std::string header = *SafetensorsHeader(tensors);
    EXPECT_TRUE(RealFileSystem().WriteFile(path, SafetensorsPieces(header, tensors)).ok());
    return path;
  }

  absl::Status Load(const std::string& path, std::vector<std::string> exclude = {}) {
    return LoadInitialWeights({.path = path, .exclude = std::move(exclude)}, RealFileSystem(),
                              *session_)
        .status();
  }

  const TempDirectory folder_;
  std::unique_ptr<Session> session_;
};

TEST_P(InitialWeightsTest, AllTensorsAreTaken) {
  const std::vector<NamedTensor> halves = Halves(*session_);
  ASSERT_TRUE(Load(Write(halves)).ok());
  EXPECT_EQ(TensorsOf(*session_), halves);
}

TEST_P(InitialWeightsTest, WithoutAPathNothingIsTaken) {
  const std::vector<NamedTensor> before = TensorsOf(*session_);
  EXPECT_TRUE(Load("").ok());
  EXPECT_EQ(TensorsOf(*session_), before);
}

// A new head for other classes: the file's has another shape, or there is none.
TEST_P(InitialWeightsTest, ExcludedTensorsKeepTheirValues) {
  const std::vector<NamedTensor> before = TensorsOf(*session_);
  std::vector<NamedTensor> halves = Halves(*session_);
  for (NamedTensor& tensor : halves) {
    if (tensor.name != "dense/bias") continue;
    tensor.shape = Shape({7});
    tensor.data.resize(7);
  }
  std::erase_if(halves, [](const NamedTensor& tensor) { return tensor.name == "dense/weight"; });
  ASSERT_TRUE(Load(Write(halves), {"dense"}).ok());
  for (const NamedTensor& tensor : TensorsOf(*session_)) {
    if (!tensor.name.starts_with("dense")) {
      EXPECT_THAT(tensor.data, ::testing::Each(0.5f)) << tensor.name;
      continue;
    }
    const auto original = std::ranges::find(before, tensor.name, &NamedTensor::name);
    EXPECT_EQ(tensor, *original);
  }
}

TEST_P(InitialWeightsTest, TensorsOfOtherModelsAreIgnored) {
  std::vector<NamedTensor> halves = Halves(*session_);
  halves.push_back({.name = "head/kernel", .shape = Shape({2}), .data = {1, 2}});
  const auto result = TakeWeights(halves, {}, *session_);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->taken.size(), halves.size() - 1);
  EXPECT_EQ(result->unused, std::vector<std::string>{"head/kernel"});
}

// The same file with the type of one tensor replaced by another of as many letters.
void ReplaceType(const std::string& path, const std::string& name, const std::string& type) {
  std::string bytes = ReadTextFile(path);
  const std::size_t entry = bytes.find("\"" + name + "\":{\"dtype\":\"F32\"");
  ASSERT_NE(entry, std::string::npos);
  bytes.replace(bytes.find("F32", entry), 3, type);
  WriteTextFile(path, bytes);
}

// PyTorch counts the batches that a normalization has seen in a tensor of integers.
TEST_P(InitialWeightsTest, ATensorOfAnotherTypeIsRefusedOnlyIfTheModelNeedsIt) {
  std::vector<NamedTensor> halves = Halves(*session_);
  const std::vector<NamedTensor> wanted = halves;
  halves.push_back({.name = "batches", .shape = Shape({2}), .data = {0, 0}});
  const std::string path = Write(halves);
  ReplaceType(path, "batches", "I64");
  const absl::Status taken = Load(path);
  ASSERT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(TensorsOf(*session_), wanted);

  ReplaceType(path, "dense/bias", "I32");
  const absl::Status refused = Load(path);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("initialWeights: "),
                    HasSubstr("found tensor 'dense/bias' of type I32, expected F32")));
  EXPECT_TRUE(Load(path, {"dense/bias"}).ok());
}

// The run would end as diverged in its first step, with the advice to lower the learning rate.
TEST_P(InitialWeightsTest, ValuesThatAreNotFiniteAreRefused) {
  const std::vector<NamedTensor> before = TensorsOf(*session_);
  std::vector<NamedTensor> halves = Halves(*session_);
  const auto weight = std::ranges::find(halves, "dense/weight", &NamedTensor::name);
  weight->data.back() = std::numeric_limits<float>::quiet_NaN();
  const std::string path = Write(halves);
  const absl::Status refused = Load(path);
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("weights.safetensors: tensor 'dense/weight': found nan"),
                    HasSubstr("initialWeights.exclude")));
  EXPECT_EQ(TensorsOf(*session_), before) << "nothing was taken";
  EXPECT_TRUE(Load(path, {"dense/weight"}).ok());
}

TEST_P(InitialWeightsTest, AFileThatDoesNotFitIsRefusedByName) {
  const std::vector<NamedTensor> before = TensorsOf(*session_);
  std::vector<NamedTensor> lacking = Halves(*session_);
  lacking.pop_back();
  const std::string missing = TensorsOf(*session_).back().name;
  absl::Status status = Load(Write(lacking));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("weights.safetensors: found no tensor '" + missing + "'"),
                    HasSubstr("initialWeights.exclude")));

  std::vector<NamedTensor> other = Halves(*session_);
  other[0].shape = Shape({1});
  other[0].data.resize(1);
  status = Load(Write(other));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(other[0].name), HasSubstr("of [1], expected [")));

  status = Load(Write(Halves(*session_)), {"conv2d", "head"});
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("initialWeights.exclude[1]: found \"head\""));
  EXPECT_EQ(TensorsOf(*session_), before) << "nothing was taken";
}

TEST_P(InitialWeightsTest, AModelWithoutTensorsHasNoneToExclude) {
  api::TrainingSpec training = SmallTraining();
  training.model.layers = api::Json::array({{{"type", "Flatten"}}});
  training.dataset.synthetic->shape = {1, 1, 3};
  session_ = SessionOf(training);
  const absl::Status refused = Load(Write({}), {"head"});
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("of which the model has none"));
}

TEST_P(InitialWeightsTest, AFileThatCannotBeReadIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(Load(folder_.At("none.safetensors"))));
  const std::string damaged = folder_.At("damaged.safetensors");
  std::ofstream(damaged) << "not safetensors";
  const absl::Status status = Load(damaged);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(damaged));
}

TEST_P(InitialWeightsTest, AFileFarLargerThanTheModelIsNotRead) {
  const std::string path = Write(Halves(*session_));
  std::filesystem::resize_file(path, std::uintmax_t{60} << 30U);  // sparse
  const absl::Status status = Load(path);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path), HasSubstr("found 64424509440 bytes, expected at most 1073")));
}

// Rank 0 alone reads the file; a checkpoint comes before it.
TEST_P(InitialWeightsTest, ARunStartsFromThemAndGoesOnFromItsCheckpoint) {
  const std::string path = Write(Halves(*session_));
  api::TrainingSpec first = NormalizedTraining(), other = first;
  first.initial_weights.path = path;
  other.initial_weights.path = folder_.At("mounted-elsewhere");
  LocalRendezvousHub hub(2);
  const auto store = OpenStore(folder_, 1);
  Rank leading(first, 2, hub, 0, nullptr, GetParam(), store.get());
  Rank following(other, 2, hub, 1, nullptr, GetParam());
  const auto dies = [](StrategyFaults::At at) {
    return at == StrategyFaults::At::kStep ? absl::UnavailableError("killed") : absl::OkStatus();
  };
  leading.faults.before = following.faults.before = dies;
  std::thread thread([&] { following.RunOnce(); });
  leading.RunOnce();
  thread.join();
  for (Rank* rank : {&leading, &following}) {
    EXPECT_EQ(TensorsOf(*rank->session), Halves(*session_));
  }

  const auto saved = MakeSnapshot(*session_, {.step = 3}, Time());
  ASSERT_TRUE(store->Save(saved).ok());
  first.initial_weights.path = folder_.At("gone");
  LocalRendezvousHub alone(1);
  Rank resumed(first, 1, alone, 0, nullptr, GetParam(), store.get());
  EXPECT_TRUE(resumed.Train());
  EXPECT_EQ(resumed.loop.restored.step, 3);
}

INSTANTIATE_TEST_SUITE_P(Devices, InitialWeightsTest, ::testing::ValuesIn(kDevices));

}  // namespace
}  // namespace lockstep::train
