#include "operator/cli/text/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "operator/cli/text/one_line.h"

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::ordered_json Plan() {
  return nlohmann::ordered_json::parse(R"({
    "job": "mnist", "model": "core-cnn", "strategy": "MultiWorkerMirrored",
    "variant": null,
    "replicas": {"pods": 2, "per_pod": 1, "threads": 4, "device": "cpu:avx2"},
    "data": {"opened": true, "training_samples": 60000, "test_samples": null,
             "sample_shape": [1, 28, 28], "element": "uint8", "classes": 10, "label_numbers": 0},
    "layers": [
      {"name": "conv2d", "type": "Conv2D", "output_shape": [32, 28, 28], "parameters": 832,
       "other_parameters": 0, "flops_per_sample": 1254400},
      {"name": "norm", "type": "BatchNormalization", "output_shape": [32, 28, 28],
       "parameters": 64, "other_parameters": 64, "flops_per_sample": 0}],
    "parameters": {"trainable": 896, "other": 64, "bytes": 3840},
    "flops_per_sample": {"forward": 1254400, "training": 2508800},
    "steps": {"global_batch": 128, "batch_per_replica": 64, "parts": 2, "per_epoch": 469,
              "total": 938, "padded_per_epoch": 32, "dropped_per_epoch": 0},
    "early_stopping": null,
    "communication": {"buckets": [2048, 2048], "bucket_count": 2,
                      "all_reduced_bytes_per_step": 4096, "sent_bytes_per_step": 4096,
                      "broadcast_bytes_per_step": 0, "exchanged_bytes_per_step": 0,
                      "shared_memory": false,
                      "servers": [], "pushed_bytes_per_step": 0, "pulled_bytes_per_step": 0},
    "checkpoint_bytes": 7680, "start_order": [], "stages": [],
    "memory": {"replica": {"process": 47185920, "step": 100, "server_values": 2097152,
                           "total": 49283172},
               "pods": [{"role": "Worker", "count": 2, "bytes": 98566344, "limit": 536870912}],
               "job": 197132688,
               "available": 4294967296, "fits": true, "largest_batch": null},
    "refusal": null})");
}

TEST(PlanTextTest, IsASummaryAndALineForEachSubject) {
  EXPECT_EQ(PlanText(Plan()), R"(
Job mnist, model core-cnn: MultiWorkerMirrored, 2 pods of 1 replica, 4 threads each on cpu:avx2

Layer (type)               Output shape  Parameters  FLOPs a sample
conv2d (Conv2D)            (32, 28, 28)         832       1,254,400
norm (BatchNormalization)  (32, 28, 28)         128

Parameters: 896 trainable, 64 other (3.8 KiB)
A sample: 1.25 MFLOPs forward, 2.51 MFLOPs in training
Data: 60,000 training samples of uint8 (1, 28, 28), 10 classes
Batch: 128 samples, 64 per replica in 2 parts
Steps: 469 an epoch, with 32 padding rows of weight 0, and no sample left out; 938 in all
Communication: 2 gradient buckets of 4.0 KiB in all are summed in a step; by a ring, a replica sends 4.0 KiB
Checkpoint: 7.5 KiB
Memory of a replica: 47.0 MiB (process 45.0 MiB, server values 2.0 MiB)
Memory of a pod of Worker: 94.0 MiB of 512.0 MiB
Memory of all pods: 188.0 MiB; this machine has 4.0 GiB available
)" + 1);
}

TEST(PlanTextTest, SaysWhenTheRunStopsEarlyAndWithWhichModel) {
  nlohmann::ordered_json plan = Plan();
  plan["early_stopping"] = {{"metric", "Loss"},      {"patience", 1},     {"min_delta", 0.0},
                            {"start_from_epoch", 0}, {"every_epochs", 1}, {"restore_best", false}};
  EXPECT_THAT(PlanText(plan),
              HasSubstr("no sample left out; at most 938 in all\n"
                        "Early stopping: after the first evaluation whose Loss is not better than "
                        "the best so far; the job ends with the model of its last step\n"));
  plan["early_stopping"] = {{"metric", "Accuracy"},  {"patience", 3},     {"min_delta", 0.01},
                            {"start_from_epoch", 5}, {"every_epochs", 2}, {"restore_best", true}};
  EXPECT_THAT(PlanText(plan),
              HasSubstr("Early stopping: after 3 evaluations in a row whose Accuracy is not better "
                        "than the best so far by more than 0.01; one every 2 epochs; those of the "
                        "first 5 epochs do not count; the job ends with the model of its best "
                        "evaluation\n"));
  plan["steps"]["total"] = nullptr;
  EXPECT_THAT(PlanText(plan), Not(HasSubstr("at most")));
}

TEST(PlanTextTest, ShowsTheStagesOfAModelThatIsCut) {
  auto plan = Plan();
  EXPECT_THAT(PlanText(plan), Not(HasSubstr("Stage")));
  plan["stages"] = nlohmann::ordered_json::parse(R"([
    {"first_layer": "conv2d", "last_layer": "relu_1", "parameters": 1200,
     "training_flops_per_sample": 2000000, "sent_bytes_per_micro_batch": 64, "memory_bytes": 2097152},
    {"first_layer": "conv2d_2", "last_layer": "dense", "parameters": 800,
     "training_flops_per_sample": 1800000, "sent_bytes_per_micro_batch": 0, "memory_bytes": 1048576}])");
  EXPECT_THAT(PlanText(plan), HasSubstr(R"(
Stage  Layers             Parameters  FLOPs a sample   Memory
0      conv2d to relu_1        1,200       2,000,000  2.0 MiB
1      conv2d_2 to dense         800       1,800,000  1.0 MiB
Idle: each stage for 33 % of a step or more (micro-batches: 2)

Parameters:)"));
}

TEST(PlanTextTest, SaysWhichRolesWaitForWhichOthers) {
  auto plan = Plan();
  EXPECT_THAT(PlanText(plan), Not(HasSubstr("Start order")));
  plan["start_order"] = nlohmann::ordered_json::parse(R"([
    {"role": "Worker", "depends_on": [{"role": "Chief", "status": "Ready"},
                                      {"role": "PS", "status": "Complete"}]},
    {"role": "Evaluator", "depends_on": [{"role": "Worker", "status": "Ready"}]}])");
  EXPECT_THAT(PlanText(plan), HasSubstr("\nStart order: Worker once Chief is ready and PS has "
                                        "completed; Evaluator once Worker is ready\n"));
}

TEST(PlanTextTest, OfGpusItSaysThatTheirMemoryIsNotKnown) {
  nlohmann::ordered_json plan = Plan();
  EXPECT_THAT(PlanText(plan), Not(HasSubstr("GPU")));
  plan["replicas"]["device"] = "cuda";
  EXPECT_THAT(PlanText(plan), HasSubstr("4 threads each on cuda\n"));
  EXPECT_THAT(PlanText(plan), HasSubstr("available\nMemory of the GPUs: not known, and in none"));
}

TEST(PlanTextTest, ANameNeitherActsOnATerminalNorPassesForALine) {
  nlohmann::ordered_json plan = Plan();
  plan["layers"][0]["name"] = "a\x1b[2J\nMemory of all pods: 1 B\u202e" + std::string(1000, 'x');
  const std::string text = PlanText(plan);
  EXPECT_THAT(text, HasSubstr("\na?[2J Memory of all pods: 1 B?xxx"));
  EXPECT_THAT(text, Not(HasSubstr(std::string(kLongestLine + 1, 'x'))));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(PlanTextTest, SaysWhatIsNotKnown) {
  nlohmann::ordered_json plan = Plan();
  plan["model"] = nullptr;
  plan["data"]["opened"] = false;
  plan["data"]["training_samples"] = nullptr;
  plan["data"]["classes"] = nullptr;
  plan["data"]["label_numbers"] = 1;
  plan["steps"]["per_epoch"] = plan["steps"]["total"] = nullptr;
  plan["memory"]["pods"][0]["limit"] = nullptr;
  const std::string text = PlanText(plan);
  for (const char* line :
       {"Job mnist: Multi",
        "Data: an unknown number of training samples of uint8 (1, 28, 28), labels of 1 number (no "
        "file was opened)\n",
        "Steps: how many an epoch has is not known without the number of samples\n",
        "Memory of a pod of Worker: 94.0 MiB, without a limit\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\n" << text;
  }
}

TEST(PlanTextTest, ParameterServersAndDroppedSamples) {
  nlohmann::ordered_json plan = Plan();
  plan["steps"]["dropped_per_epoch"] = 1;
  nlohmann::ordered_json& communication = plan["communication"];
  communication["servers"] = {{{"moved_bytes", 1}, {"held_bytes", 2}}};
  communication["pushed_bytes_per_step"] = communication["pulled_bytes_per_step"] = 2048;
  const std::string text = PlanText(plan);
  EXPECT_NE(text.find("and 1 sample left out; 938"), std::string::npos) << text;
  EXPECT_NE(text.find("a step pulls 2.0 KiB from 1 parameter server and pushes 2.0 KiB"),
            std::string::npos)
      << text;
  plan["communication"] = Plan()["communication"];
  plan["communication"]["bucket_count"] = 0;
  EXPECT_NE(PlanText(plan).find("Communication: none\n"), std::string::npos);
}

TEST(PlanTextTest, ReplicasOfOnePodShareMemory) {
  nlohmann::ordered_json plan = Plan();
  plan["communication"]["shared_memory"] = true;
  EXPECT_NE(PlanText(plan).find("in a step; replicas share memory, so that nothing is sent\n"),
            std::string::npos);
  plan["communication"]["shared_memory"] = false;
  plan["communication"]["broadcast_bytes_per_step"] = 1024;
  EXPECT_NE(PlanText(plan).find(
                "sends 4.0 KiB; rank 0 sends each other replica its parameters of 1.0 KiB\n"),
            std::string::npos);
}

TEST(PlanTextTest, ReplicasWithAShardedStateSendParametersToo) {
  nlohmann::ordered_json plan = Plan();
  plan["communication"]["exchanged_bytes_per_step"] = 2048;
  EXPECT_NE(PlanText(plan).find(
                "sends 4.0 KiB; then it sends parameters of 2.0 KiB that it has updated\n"),
            std::string::npos);
}

TEST(PlanTextTest, NamesTheVariantThatItDescribes) {
  nlohmann::ordered_json plan = Plan();
  plan["variant"] = 3;
  EXPECT_NE(PlanText(plan).find("\nVariant 3, which needs the most memory:\nLayer (type)"),
            std::string::npos);
}

TEST(PlanTextTest, NumbersAreReadable) {
  EXPECT_EQ(WithCommas(0), "0");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(-1234567), "-1,234,567");
  EXPECT_EQ(ByteText(1023), "1023 B");
  EXPECT_EQ(ByteText(std::int64_t{5} << 40), "5.0 TiB");
}

}  // namespace
}  // namespace lockstep::cli
