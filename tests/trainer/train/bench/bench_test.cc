#include "trainer/train/bench/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "api/v1/names.h"
#include "tests/support/cuda_sim/use_simulator.h"
#include "tests/support/run_trainer.h"
#include "trainer/backend/backend.h"

namespace lockstep::train {
namespace {

class BenchTest : public ::testing::TestWithParam<std::string> {
 protected:
  static nlohmann::ordered_json Run(const std::string& model, bool explain) {
    const auto report = RunBench(
        {.model = model, .batch = 8, .threads = 1, .steps = 2, .warmup = 1, .explain = explain});
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : nlohmann::ordered_json{};
  }
};

// tools/bench/bench reads images_per_second and peak_bytes, people the rest.
TEST_P(BenchTest, TheReportSaysWhatWasTimedAndHowLongItTook) {
  const auto report = Run(GetParam(), /*explain=*/false);
  EXPECT_EQ(report.at("model"), GetParam());
  EXPECT_EQ(report.at("data"), "synthetic");
  EXPECT_EQ(report.at("backend"), "cpu");
  EXPECT_EQ(report.at("batch"), 8);
  EXPECT_EQ(report.at("threads"), 1);
  EXPECT_EQ(report.at("steps"), 2) << "without those of the warm-up";
  EXPECT_EQ(report.at("recorded"), false) << "a processor's steps are not queued";
  EXPECT_FALSE(report.contains("ops"));
  EXPECT_GT(report.at("loss"), 0.0);
  EXPECT_GT(report.at("peak_bytes"), 1'000'000);
  const auto& seconds = report.at("seconds");
  const double total = seconds.at("total");
  EXPECT_GT(total, 0.0);
  double parts = 0;
  for (const char* part : {"input", "forward", "backward", "communication", "optimizer"}) {
    EXPECT_GE(seconds.at(part), 0.0) << part;
    parts += seconds.at(part).get<double>();
  }
  for (const char* part : {"forward", "backward", "optimizer"}) EXPECT_GT(seconds.at(part), 0.0);
  EXPECT_LE(parts, total);
  EXPECT_DOUBLE_EQ(report.at("steps_per_second"), 2 / total);
  EXPECT_DOUBLE_EQ(report.at("images_per_second"), 16 / total);
}

TEST_P(BenchTest, EveryPassOfEveryOpIsExplainedAndTimed) {
  const auto report = Run(GetParam(), /*explain=*/true);
  ASSERT_FALSE(report.at("ops").empty());
  for (const auto& op : report.at("ops")) {
    const std::string name = op.at("name");
    std::vector<std::string> passes;
    for (const auto& choice : op.at("choices")) {
      passes.push_back(choice.at("pass"));
      EXPECT_FALSE(choice.at("implementation").get<std::string>().empty()) << name;
      EXPECT_FALSE(choice.at("layout").get<std::string>().empty()) << name;
    }
    ASSERT_GE(passes.size(), 2u) << name;
    EXPECT_EQ(passes.front(), "forward") << name;
    EXPECT_THAT(passes.back(), ::testing::StartsWith("backward")) << name;
    EXPECT_GT(op.at("forward_us"), 0.0) << name;
    EXPECT_GT(op.at("backward_us"), 0.0) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BenchTest, ::testing::Values("mlp", "core-cnn"),
                         [](const auto& found) {
                           std::string name = found.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BenchOptionsTest, AnUnknownModelIsAnError) {
  EXPECT_THAT(RunBench({.model = "resnet"}).status().message(),
              ::testing::HasSubstr("found \"resnet\", expected one of mlp"));
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(BenchOptionsTest, TheDeviceReplaysRecordedStepsUnlessItIsToldNotTo) {
  BenchOptions options{
      .model = "mlp", .batch = 2, .threads = 1, .steps = 2, .warmup = 1, .backend = "cuda"};
  EXPECT_EQ(RunBench(options)->at("recorded"), true);
  options.records_steps = false;
  EXPECT_EQ(RunBench(options)->at("recorded"), false);
  options.records_steps = options.explain = true;
  const auto explained = RunBench(options);
  EXPECT_EQ(explained->at("recorded"), false);
  EXPECT_GT(explained->at("ops").at(1).at("forward_us"), 0.0);
}

// Every call of the device fails from then on, also those of destructors.
TEST(BenchVerbTest, EndsWithTheErrorOfADeviceThatHasFailed) {
  for (const char* flag : {"", " --eager"}) {
    const Ended ended = RunTrainer(
        std::string("bench --model mlp --batch 2 --threads 1 --backend cuda 2>&1") + flag,
        "CUDA_SIM_FAILS_AT=500 ");
    EXPECT_EQ(ended.code, 134) << ended.out;
    const std::vector<std::string> lines = Lines(ended.out);
    ASSERT_FALSE(lines.empty());
    const auto last = nlohmann::json::parse(lines.back(), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(last.is_object()) << ended.out;
    EXPECT_EQ(last.value("exitCode", 0), 134);
    EXPECT_THAT(ended.out, ::testing::HasSubstr("failed with 700: an illegal memory access"));
  }
}

// Wider than any that are chosen today, and one op that says nothing.
const nlohmann::ordered_json kExplained = nlohmann::ordered_json::parse(R"({"ops": [
  {"name": "conv2d_with_a_long_name", "x": "[128,32,14,14]", "y": "[128,64,14,14]", "choices": [
     {"pass": "forward", "implementation": "lockstep:winograd:baseline", "layout": "nhwc > nhwc"},
     {"pass": "backward weights", "implementation": "ref:any", "layout": "nchw > nhwc > nChw16c"},
     {"pass": "backward data", "implementation": "jit:avx2", "layout": "nhwc > nhwc"}],
   "forward_us": 1234.5, "backward_us": 23456.7},
  {"name": "relu", "x": "[128,10]", "y": "[128,10]", "choices": [],
   "forward_us": 0.2, "backward_us": null}]})");

TEST(ExplainTableTest, ColumnsAreAsWideAsWhatIsInThem) {
  EXPECT_EQ(ExplainTable(kExplained), R"(
op                      shape                           pass             implementation             layout                     µs
conv2d_with_a_long_name [128,32,14,14] > [128,64,14,14] forward          lockstep:winograd:baseline nhwc > nhwc            1234.5
                                                        backward weights ref:any                    nchw > nhwc > nChw16c 23456.7
                                                        backward data    jit:avx2                   nhwc > nhwc
relu                    [128,10] > [128,10]             forward                                                               0.2
                                                        backward
)" + 1);
}

TEST(BenchVerbTest, PrintsTheTableAndThenTheReport) {
  const Ended ended =
      RunTrainer("bench --model mlp --batch 8 --threads 1 --steps 2 --warmup 0 --explain");
  ASSERT_EQ(ended.code, api::kExitDone) << ended.out;
  const std::vector<std::string> lines = Lines(ended.out);
  ASSERT_GE(lines.size(), 3u);
  EXPECT_THAT(lines.front(), ::testing::StartsWith("op "));
  const auto report = nlohmann::json::parse(lines.back());
  EXPECT_EQ(report.at("model"), "mlp");
  EXPECT_EQ(report.at("steps"), 2);
  EXPECT_GT(report.at("images_per_second"), 0.0);
  std::size_t choices = 0;
  for (const auto& op : report.at("ops")) choices += op.at("choices").size();
  EXPECT_EQ(lines.size(), 1 + choices + 1);
}

TEST(BenchVerbTest, RunsOnEveryBackendThatItsHelpNames) {
  const std::string help = RunTrainer("bench --help").out;
  const std::vector<std::string> names = BackendNames();
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("cpu", "cuda", "reference", "async-reference"));
  for (const std::string& name : names) {
    EXPECT_THAT(help, ::testing::HasSubstr(name));
    const Ended ended = RunTrainer(
        "bench --model mlp --batch 2 --threads 1 --steps 1 --warmup 0 --backend " + name);
    ASSERT_EQ(ended.code, api::kExitDone) << name << ": " << ended.out;
    EXPECT_EQ(nlohmann::json::parse(ended.out).at("backend"), name);
  }
  EXPECT_EQ(RunTrainer("bench --backend abacus 2>&1").code, api::kExitUsage);
}

TEST(BenchVerbTest, SaysThatThereIsNoGpu) {
  const Ended ended = RunTrainer("bench --model mlp --backend cuda 2>&1",
                                 "env -u LOCKSTEP_CUDA_PATH CUDA_VISIBLE_DEVICES= ");
  EXPECT_EQ(ended.code, api::kExitBadConfig);
  EXPECT_THAT(Lines(ended.out), ::testing::ElementsAre(::testing::HasSubstr("back end cuda")));
}

TEST(BenchVerbTest, RunsInEveryPrecision) {
  for (const std::string name : {"Float32", "TF32", "BFloat16", "Float16"}) {
    const Ended ended = RunTrainer(
        "bench --model simple-cnn --batch 2 --threads 1 --steps 1 --warmup 0 --precision " + name +
        " 2>/dev/null");
    ASSERT_EQ(ended.code, api::kExitDone) << name << ": " << ended.out;
    EXPECT_EQ(nlohmann::json::parse(ended.out).at("precision"), name);
  }
  EXPECT_EQ(RunTrainer("bench --precision Float64 2>&1").code, api::kExitUsage);
}

TEST(BenchVerbTest, ComputesActivationsAgainAsItIsTold) {
  std::map<std::string, std::int64_t> peaks;
  for (const std::string name : {"None", "Full"}) {
    const Ended ended = RunTrainer(
        "bench --model resnet-18 --sample-shape 3,64,64 --classes 10 --batch 32 --threads 1 "
        "--steps 1 "
        "--warmup 0 --activation-checkpointing " +
        name + " 2>/dev/null");
    ASSERT_EQ(ended.code, api::kExitDone) << name << ": " << ended.out;
    const auto report = nlohmann::json::parse(ended.out);
    EXPECT_EQ(report.at("activation_checkpointing"), name);
    peaks[name] = report.at("peak_bytes");
  }
  EXPECT_LT(peaks["Full"], peaks["None"]);
  EXPECT_EQ(RunTrainer("bench --activation-checkpointing All 2>&1").code, api::kExitUsage);
}

TEST(BenchVerbTest, SaysWhatItCannotDo) {
  const Ended model = RunTrainer("bench --model resnet 2>&1");
  EXPECT_EQ(model.code, api::kExitBadConfig);
  EXPECT_THAT(model.out,
              ::testing::StartsWith("lockstep-trainer bench: model.name: found \"resnet\""));
  EXPECT_EQ(RunTrainer("bench --steps 0 2>&1").code, api::kExitUsage);
}

}  // namespace
}  // namespace lockstep::train
