#include "trainer/check/gpu_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/v1/names.h"
#include "base/thread_pool.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "tests/support/run_trainer.h"
#include "tests/support/temp_directory.h"
#include "tests/trainer/check/wrong_backend.h"
#include "trainer/check/benchmarks.h"
#include "trainer/check/check_conversions.h"
#include "trainer/check/check_losses.h"
#include "trainer/check/check_ops.h"
#include "trainer/check/check_updates.h"
#include "trainer/core/half.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

// The cases with these names, out of all three lists. Expects each to be there.
std::vector<OpCase> CasesNamed(const std::vector<std::string>& names) {
  std::vector<OpCase> found;
  for (const OpCase& op_case : Together({SmallCases(), CoreCnnCases(), ResNetCases()})) {
    if (std::ranges::find(names, op_case.name) != names.end()) found.push_back(op_case);
  }
  EXPECT_EQ(found.size(), names.size());
  return found;
}

std::vector<CheckGroup> Check(Backend& backend, const std::vector<OpCase>& cases) {
  ThreadPool pool(1);
  return CheckOps(backend, cases, pool, 2);
}

void ExpectRight(const CheckGroup& group) {
  EXPECT_GT(group.cases, 0);
  for (const CheckFault& fault : group.faults) {
    ADD_FAILURE() << group.name << " " << group.type << ": " << fault.test_case << " "
                  << fault.input << ": " << fault.problem;
  }
}

TEST(GpuCheckTest, FindsTheOpsOfTheSimulatedDeviceRight) {
  const auto backend = MakeBackend({.name = "cuda"});
  const auto groups =
      Check(*backend, CasesNamed({"ConvSameStrideTwo", "DenseRelu", "BatchNormWithPaddingRows",
                                  "Dropout", "AddReluOfThreeInTwoOrders", "MaxPoolWithZeros"}));
  EXPECT_EQ(groups.size(), 18u) << "six ops in three types";
  for (const CheckGroup& group : groups) ExpectRight(group);
}

std::vector<CheckGroup> CheckTF32(Backend& backend) {
  ThreadPool pool(1);
  return CheckTF32Ops(backend, CasesNamed({"ConvSameStrideTwo", "DenseRelu", "Dropout"}), pool, 2);
}

TEST(GpuCheckTest, FindsTheProductsInTF32Right) {
  const auto backend = MakeBackend({.name = "cuda", .rounds_to_tf32 = true});
  const auto groups = CheckTF32(*backend);
  ASSERT_EQ(groups.size(), 2u) << "a dropout multiplies no factors that a device may round";
  for (const CheckGroup& group : groups) {
    EXPECT_EQ(group.type, "TF32");
    ExpectRight(group);
  }
}

TEST(GpuCheckTest, FindsProductsOfFewerBitsThanTF32) {
  WrongBackend<DenseSpec> backend(MakeBackend({.name = "cpu", .threads = 2}),
                                  WrongBackend<DenseSpec>::Change([](std::vector<float>& y) {
                                    for (float& value : y) value = FromBFloat16(ToBFloat16(value));
                                  }));
  for (const CheckGroup& group : CheckTF32(backend)) {
    EXPECT_EQ(group.faults.empty(), group.name != "Dense") << group.name;
  }
}

TEST(GpuCheckTest, FindsTheRestOfTheSimulatedDeviceRight) {
  const auto backend = MakeBackend({.name = "cuda"});
  ExpectRight(CheckCrossEntropy(*backend, /*large=*/false));
  ExpectRight(CheckElementwiseLosses(*backend, /*large=*/false));
  ExpectRight(CheckOptimizers(*backend, /*large=*/false));
  ExpectRight(CheckUpdateDecisions(*backend));
  ExpectRight(CheckConversions(*backend));
}

// Rounds one value of each update to its neighbour.
class OtherRounding final : public ChangedBackend {
 public:
  using ChangedBackend::ChangedBackend;
  std::unique_ptr<OptimizerOp> MakeOptimizer(const OptimizerRule& rule) override {
    return std::make_unique<Op>(ChangedBackend::MakeOptimizer(rule));
  }

 private:
  class Op final : public OptimizerOp {
   public:
    explicit Op(std::unique_ptr<OptimizerOp> op) : op_(std::move(op)) {}
    int Slots() const override { return op_->Slots(); }
    std::size_t ScratchBytes() const override { return op_->ScratchBytes(); }
    void Bind(const OptimizerMemory& memory) override {
      memory_ = memory;
      op_->Bind(memory);
    }
    void Step() override {
      op_->Step();
      if (memory_.step->applies) memory_.values[17] = std::nextafter(memory_.values[17], 100.0f);
    }

   private:
    const std::unique_ptr<OptimizerOp> op_;
    OptimizerMemory memory_;
  };
};

TEST(GpuCheckTest, FindsUpdatesThatAreRoundedOtherwise) {
  OtherRounding backend(MakeBackend({.name = "cpu", .threads = 2}));
  const CheckGroup group = CheckOptimizers(backend, /*large=*/false);
  std::set<std::string> wrong;
  for (const CheckFault& fault : group.faults) {
    EXPECT_THAT(fault.problem, HasSubstr("values[17] is "));
    wrong.insert(fault.test_case);
  }
  EXPECT_THAT(
      wrong, ::testing::ElementsAre("Adagrad", "Adam", "AdamW", "RMSprop", "RMSpropMomentum", "SGD",
                                    "SGDMomentum", "SGDNesterov"));
}

TEST(GpuCheckTest, FindsTheSimulatedDeviceTrainingRight) {
  const auto groups = CheckTraining(
      [](api::Precision precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
        const bool rounds = precision == api::Precision::kTF32;
        return MakeBackend({.name = "cuda", .rounds_to_tf32 = rounds});
      },
      2);
  EXPECT_EQ(groups.size(), 4u);
  for (const CheckGroup& group : groups) ExpectRight(group);
}

TEST(GpuCheckTest, FindsTheSimulatedDevicesRecordedStepsRight) {
  const auto groups = CheckRecordedSteps(
      [](api::Precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
        return MakeBackend({.name = "cuda"});
      },
      2);
  EXPECT_EQ(groups.size(), 4u);
  for (const CheckGroup& group : groups) ExpectRight(group);
}

TEST(GpuCheckTest, FindsADeviceThatRefusesToRecordSteps) {
  const auto groups = CheckRecordedSteps(
      [](api::Precision precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
        // One type is enough: the simulated GPU takes long for each.
        if (precision != api::Precision::kFloat32) return absl::UnavailableError("not asked");
        return std::make_unique<WrongBackend<DenseSpec>>(MakeBackend({.name = "cuda"}),
                                                         [](std::vector<float>&) {});
      },
      2);
  ASSERT_EQ(groups.size(), 4u);
  ASSERT_EQ(groups[0].faults.size(), 2u);
  EXPECT_THAT(groups[0].faults[0].problem, HasSubstr("refused to record"));
}

TEST(GpuCheckTest, HasNoGroupForADeviceThatRecordsNoSteps) {
  EXPECT_TRUE(CheckRecordedSteps(
                  [](api::Precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
                    return MakeBackend({.name = "cpu"});
                  },
                  1)
                  .empty());
}

TEST(GpuCheckTest, SaysWhatTheDeviceAndItsLibrariesAre) {
  std::set<std::string> names;
  for (const DeviceFact& fact : MakeBackend({.name = "cuda"})->Facts()) {
    names.insert(fact.name);
    EXPECT_FALSE(fact.value.empty()) << fact.name;
    if (fact.name == "cuDNN") {
      EXPECT_THAT(fact.value, ::testing::StartsWith("9.19.0 (" LOCKSTEP_CUDA_SIM_FOLDER));
    }
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf(
                         {"GPU", "compute capability", "memory", "driver", "cuDNN", "cuBLASLt"}));
}

// The faults of Add's groups; no other group may have one.
std::vector<CheckFault> FaultsOfWrongAdd(const std::function<void(std::vector<float>&)>& change) {
  WrongBackend<AddSpec> backend(MakeBackend({.name = "cpu", .threads = 2}), change);
  std::vector<CheckFault> faults;
  for (const CheckGroup& group : Check(backend, CasesNamed({"AddOfMatrices", "Dense"}))) {
    if (group.name == "Add") {
      faults.insert(faults.end(), group.faults.begin(), group.faults.end());
    } else {
      ExpectRight(group);
    }
  }
  return faults;
}

TEST(GpuCheckTest, FindsAWrongElement) {
  const auto faults = FaultsOfWrongAdd([](std::vector<float>& y) { y[7] += 0.1f; });
  ASSERT_EQ(faults.size(), 9u)
      << "in each of three types: y of a step, the restored y, and y in evaluation";
  EXPECT_EQ(faults[0].test_case, "AddOfMatrices");
  EXPECT_EQ(faults[0].input, "[3,37], dense");
  EXPECT_THAT(faults[0].problem, ::testing::StartsWith("y[7] is "));
  EXPECT_THAT(faults[1].problem, ::testing::StartsWith("y[7] is restored as "));
}

TEST(GpuCheckTest, SaysWhichOpFailed) {
  WrongBackend<AddSpec> backend(MakeBackend({.name = "cpu", .threads = 2}),
                                [](std::vector<float>& y) { y[7] += 0.1f; });
  const CheckReport report{.groups = Check(backend, CasesNamed({"AddOfMatrices", "Dense"}))};
  EXPECT_THAT(ReportTable(report), HasSubstr("\nFAILED Add   bfloat16 1 "));
  EXPECT_THAT(ReportTable(report), HasSubstr("\nok     Dense bfloat16 1 "));
  EXPECT_EQ(ExitCode(report), 1);
  EXPECT_EQ(ExitCode({}), 0);
}

TEST(GpuCheckTest, FindsAnElementThatWasNotWritten) {
  const auto faults = FaultsOfWrongAdd([](std::vector<float>& y) { y[3] = NAN; });
  ASSERT_FALSE(faults.empty());
  EXPECT_THAT(faults[0].problem, ::testing::StartsWith("y[3] is nan, expected "));
}

TEST(GpuCheckTest, FindsOtherBitsInTheSecondRun) {
  int run = 0;
  const auto faults = FaultsOfWrongAdd(
      [&run](std::vector<float>& y) { y[5] *= 1 + 1e-6f * static_cast<float>(run++ % 2); });
  ASSERT_FALSE(faults.empty());
  EXPECT_THAT(faults[0].problem, ::testing::StartsWith("y of the second run[5] is "));
}

TEST(GpuCheckTest, FindsOtherBitsInTheSecondRunsStates) {
  int step = 0;
  WrongBackend<BatchNormSpec> backend(
      MakeBackend({.name = "cpu", .threads = 2}),
      WrongOp::Spoil([&step](Mode mode, const TensorDesc&, const OpMemory& memory) {
        if (mode == Mode::kTraining && step++ % 2 == 1) memory.states[1][0] *= 1 + 1e-6f;
      }));
  const auto groups = Check(backend, CasesNamed({"BatchNormWithPaddingRows"}));
  ASSERT_FALSE(groups.empty());
  for (const CheckGroup& group : groups) {
    ASSERT_FALSE(group.faults.empty()) << group.type;
    EXPECT_THAT(group.faults[0].problem, ::testing::StartsWith("state 1 of the second run[0] is "));
  }
}

TEST(GpuCheckTest, FindsStatesThatAnEvaluationChanges) {
  WrongBackend<BatchNormSpec> backend(
      MakeBackend({.name = "cpu", .threads = 2}),
      WrongOp::Spoil([](Mode mode, const TensorDesc&, const OpMemory& memory) {
        if (mode == Mode::kEvaluation) memory.states[0][0] += 1;
      }));
  const auto groups = Check(backend, CasesNamed({"BatchNormWithPaddingRows"}));
  ASSERT_FALSE(groups.empty());
  for (const CheckGroup& group : groups) {
    ASSERT_FALSE(group.faults.empty()) << group.type;
    EXPECT_THAT(group.faults[0].problem,
                ::testing::StartsWith("state 0 after an evaluation[0] is "));
  }
}

// The channels with which a layout pads these 5 must be 0, because later ops compute with them.
TEST(GpuCheckTest, FindsWhatAnEvaluationLeavesInPaddingChannels) {
  WrongBackend<Conv2dSpec> backend(
      MakeBackend({.name = "cpu", .threads = 2}),
      WrongOp::Spoil([](Mode mode, const TensorDesc& y, const OpMemory& memory) {
        const bool is_padded = y.elements() > y.shape.elements() && y.dtype == DType::kFloat32;
        if (mode == Mode::kEvaluation && is_padded) {
          static_cast<float*>(memory.y)[y.elements() - 1] = 1;
        }
      }));
  const auto groups = Check(backend, CasesNamed({"ConvValid3x3"}));
  ASSERT_EQ(groups[0].type, "float32");
  ASSERT_FALSE(groups[0].faults.empty());
  EXPECT_THAT(groups[0].faults[0].problem, ::testing::StartsWith("in evaluation, y: element "));
}

TEST(GpuCheckTest, FindsAnElementThatIsNotBroughtToTheHost) {
  ForgetfulBackend backend(MakeBackend({.name = "cpu", .threads = 2}));
  std::set<std::string> wrong;
  for (const CheckFault& fault : CheckConversions(backend).faults) wrong.insert(fault.test_case);
  EXPECT_THAT(wrong,
              ::testing::IsSupersetOf({"Layout_float32", "Layout_bfloat16", "Layout_float16"}));
  for (const CheckGroup& group : Check(backend, CasesNamed({"Dense"}))) {
    EXPECT_FALSE(group.faults.empty()) << group.type;
  }
}

TEST(GpuCheckTest, FindsWhatTheDeviceRefuses) {
  const auto faults = FaultsOfWrongAdd(
      [](std::vector<float>&) { throw DeviceError("no algorithm for this shape"); });
  ASSERT_EQ(faults.size(), 3u);
  EXPECT_EQ(faults[0].problem, "no algorithm for this shape");
}

TEST(BenchmarksTest, MeasureEveryType) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 2});
  EXPECT_GT(MeasureCopy(*backend).value, 0);
  const auto products = MeasureMatmul(*backend);
  ASSERT_EQ(products.size(), 3u);
  for (const Measurement& product : products) EXPECT_GT(product.value, 0) << product.type;
  const auto steps = MeasureSteps(
      [](api::Precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
        return MakeBackend({.name = "cpu"});
      },
      1, {.model = "mlp", .batch = 8, .sample_shape = {1, 28, 28}, .seconds = 0.01});
  ASSERT_EQ(steps.size(), 6u);
  for (std::size_t i = 0; i < steps.size(); i += 2) {
    EXPECT_GT(steps[i].value, 0);
    EXPECT_DOUBLE_EQ(steps[i + 1].value, 8 * steps[i].value) << "images per second";
  }
}

TEST(BenchmarksTest, MeasureRecordedStepsAndQueuedOnes) {
  const auto steps = MeasureSteps(
      [](api::Precision) -> absl::StatusOr<std::unique_ptr<Backend>> {
        return MakeBackend({.name = "cuda"});
      },
      1, {.model = "mlp", .batch = 8, .sample_shape = {1, 28, 28}, .seconds = 0.5});
  ASSERT_EQ(steps.size(), 12u);
  EXPECT_EQ(steps[0].note, "batch 8, recorded");
  EXPECT_EQ(steps[2].note, "batch 8");
  for (const Measurement& measured : steps) EXPECT_GT(measured.value, 0);
}

std::vector<Measurement> StepsOn(const BackendFactory& make_backend) {
  return MeasureSteps(make_backend, 1, {.model = "mlp", .batch = 8, .sample_shape = {1, 28, 28}});
}

TEST(BenchmarksTest, ALackOfMemoryIsNoFault) {
  using Made = absl::StatusOr<std::unique_ptr<Backend>>;
  const std::vector<BackendFactory> factories = {
      [](api::Precision) -> Made { throw OutOfMemory("no memory"); },
      [](api::Precision) -> Made { return absl::ResourceExhaustedError("no memory"); },
      [](api::Precision) -> Made {
        return std::make_unique<SmallBackend>(MakeBackend({.name = "cpu"}), 1000);
      }};
  for (const BackendFactory& make_backend : factories) {
    const auto steps = StepsOn(make_backend);
    ASSERT_EQ(steps.size(), 6u);
    for (const Measurement& measured : steps) {
      EXPECT_EQ(measured.value, 0);
      EXPECT_EQ(measured.note, "no memory");
      EXPECT_FALSE(measured.has_failed);
    }
    EXPECT_EQ(ExitCode({.measurements = steps}), api::kExitDone);
  }
}

TEST(BenchmarksTest, WhateverElseTheDeviceCannotDoIsAFault) {
  using Made = absl::StatusOr<std::unique_ptr<Backend>>;
  const std::vector<BackendFactory> factories = {
      [](api::Precision) -> Made { throw DeviceError("an illegal address"); },
      [](api::Precision) -> Made { return absl::UnavailableError("an illegal address"); }};
  for (const BackendFactory& make_backend : factories) {
    const auto steps = StepsOn(make_backend);
    ASSERT_EQ(steps.size(), 6u);
    for (const Measurement& measured : steps) {
      EXPECT_EQ(measured.value, 0);
      EXPECT_EQ(measured.note, "an illegal address");
      EXPECT_TRUE(measured.has_failed);
    }
    EXPECT_EQ(ExitCode({.measurements = steps}), 1);
  }
}

TEST(BenchmarksTest, WhatFitsCountsIfLargerSizesDoNot) {
  const auto with_room = [](std::size_t most) {
    return SmallBackend(MakeBackend({.name = "cpu", .threads = 2}), most);
  };
  SmallBackend for_copy = with_room((std::size_t{1} << 20) + 4096);
  const Measurement copy = MeasureCopy(for_copy);
  EXPECT_GT(copy.value, 0);
  EXPECT_EQ(copy.note, "1 MiB");
  EXPECT_FALSE(copy.has_failed);
  SmallBackend for_matmul = with_room(std::size_t{1} << 19);
  const Measurement product = MeasureMatmul(for_matmul).front();
  EXPECT_GT(product.value, 0);
  EXPECT_EQ(product.note, "256 x 256 times 256 x 256");
  EXPECT_FALSE(product.has_failed);
}

TEST(GpuCheckVerbTest, ChecksThisProcessorAndWritesTheReport) {
  const TempDirectory folder;
  const std::string file = folder.At("report.json");
  const Ended ended = RunTrainer(
      "gpu-check --backend cpu --threads 1 --quick --no-benchmarks --json " + file + " 2>&1");
  EXPECT_EQ(ended.code, api::kExitDone) << ended.out;
  EXPECT_THAT(ended.out, ::testing::StartsWith("device: cpu:"));
  EXPECT_THAT(ended.out, HasSubstr("\nok     Conv2D                 bfloat16"));
  EXPECT_THAT(ended.out, HasSubstr("\nok     Conv2D                 TF32 "));
  EXPECT_THAT(ended.out, HasSubstr("\nok     training               TF32 "));
  std::ifstream stream(file);
  const auto report = nlohmann::json::parse(stream);
  EXPECT_EQ(report.at("ok"), true);
  EXPECT_EQ(report.at("backend"), "cpu");
  EXPECT_GT(report.at("checks").size(), 40u);
  EXPECT_TRUE(report.at("benchmarks").empty());
}

TEST(GpuCheckVerbTest, SaysThatThereIsNoGpu) {
  const Ended ended =
      RunTrainer("gpu-check 2>&1", "env -u LOCKSTEP_CUDA_PATH CUDA_VISIBLE_DEVICES= ");
  EXPECT_EQ(ended.code, api::kExitBadConfig);
  EXPECT_THAT(ended.out, ::testing::StartsWith("lockstep-trainer gpu-check: back end cuda: "));
}

TEST(GpuCheckVerbTest, RefusesAFileThatCannotBeWrittenBeforeItWorks) {
  const Ended ended = RunTrainer("gpu-check --backend cpu --json /no/such/folder/file 2>&1");
  EXPECT_EQ(ended.code, api::kExitUsage);
  EXPECT_THAT(ended.out, HasSubstr("/no/such/folder/file cannot be written: No such file"));
}

}  // namespace
}  // namespace lockstep::train
