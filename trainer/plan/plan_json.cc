#include "trainer/plan/plan_json.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "api/v1/enum_names.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json Replicas(const JobPlan& plan) {
  const Identity& identity = plan.identity;
  return {{"pods", identity.Pods()},
          {"per_pod", identity.processes_per_pod},
          {"threads", plan.threads},
          {"device", plan.device}};
}

Json Data(const JobPlan& plan) {
  const DataFacts& train = plan.data.train;
  return {{"opened", plan.data.is_opened},
          {"training_samples", OrNull(train.samples)},
          {"test_samples", plan.data.test ? OrNull(plan.data.test->samples) : Json()},
          {"sample_shape", train.shape.dims()},
          {"element", DTypeName(train.element)},
          {"classes", train.targets > 0 ? Json() : Json(train.classes)},
          {"label_numbers", train.targets}};
}

std::int64_t Whole(double flops) {
  constexpr double kMost = 0x1p62;  // far above any use, and an integer of 64 bits
  return static_cast<std::int64_t>(std::min(flops, kMost));
}

double PerSample(double flops, const OpReport& op) {
  return flops / static_cast<double>(op.y[0]);
}

// Without the rows of the batch.
std::vector<std::int64_t> SampleDims(const Shape& shape) {
  return {shape.dims().begin() + 1, shape.dims().end()};
}

Json Layers(const JobPlan& plan) {
  Json layers = Json::array();
  for (const OpReport& op : plan.ops) {
    layers.push_back({{"name", op.name},
                      {"type", op.facts.type},
                      {"output_shape", SampleDims(op.y)},
                      {"parameters", op.parameters},
                      {"other_parameters", op.states},
                      {"flops_per_sample", Whole(PerSample(op.facts.forward_flops, op))}});
  }
  return layers;
}

struct Totals {
  std::int64_t trainable = 0, other = 0;
  double forward = 0, backward = 0;
};

Totals TotalsOf(const std::vector<OpReport>& ops) {
  Totals totals;
  for (const OpReport& op : ops) {
    totals.trainable += op.parameters;
    totals.other += op.states;
    totals.forward += PerSample(op.facts.forward_flops, op);
    totals.backward += PerSample(op.facts.backward_flops, op);
  }
  return totals;
}

void AddTotals(const JobPlan& plan, Json& json) {
  const Totals totals = TotalsOf(plan.ops);
  json["parameters"] = {
      {"trainable", totals.trainable},
      {"other", totals.other},
      {"bytes", (totals.trainable + totals.other) * static_cast<std::int64_t>(sizeof(float))}};
  json["flops_per_sample"] = {{"forward", Whole(totals.forward)},
                              {"training", Whole(totals.forward + totals.backward)}};
}

Json Stages(const JobPlan& plan) {
  Json stages = Json::array();
  for (const PlannedStage& stage : plan.stages) {
    const Totals totals = TotalsOf(stage.ops);
    stages.push_back({{"first_layer", stage.ops.front().name},
                      {"last_layer", stage.ops.back().name},
                      {"parameters", totals.trainable + totals.other},
                      {"training_flops_per_sample", Whole(totals.forward + totals.backward)},
                      {"sent_bytes_per_micro_batch", stage.sent},
                      {"memory_bytes", stage.bytes}});
  }
  return stages;
}

Json Steps(const PlannedSteps& steps) {
  return {{"global_batch", steps.plan.global_batch},
          {"batch_per_replica", steps.plan.LocalBatch()},
          {"parts", steps.parts},
          {"per_epoch", OrNull(steps.epoch)},
          {"total", OrNull(steps.total)},
          {"padded_per_epoch", OrNull(steps.padded)},
          {"dropped_per_epoch", OrNull(steps.dropped)}};
}

Json EarlyStopping(const JobPlan& plan) {
  const auto& stopping = plan.training.early_stopping;
  if (!stopping) return nullptr;
  return {{"metric", api::NameOf(stopping->metric)},
          {"patience", stopping->patience},
          {"min_delta", stopping->min_delta},
          {"start_from_epoch", stopping->start_from_epoch},
          {"every_epochs", plan.training.evaluation.every_epochs},
          {"restore_best", stopping->restore_best}};
}

Json Communication(const PlannedMessages& messages) {
  Json servers = Json::array();
  std::size_t moved = 0;
  for (const PlannedServer& server : messages.servers) {
    servers.push_back({{"moved_bytes", server.moved}, {"held_bytes", server.held}});
    moved += server.moved;
  }
  const std::vector<std::size_t>& buckets = messages.buckets;
  return {
      {"buckets", buckets},
      {"bucket_count", buckets.size()},
      {"all_reduced_bytes_per_step", std::accumulate(buckets.begin(), buckets.end(), size_t{0})},
      {"sent_bytes_per_step", messages.sent},
      {"broadcast_bytes_per_step", messages.broadcast},
      {"exchanged_bytes_per_step", messages.exchanged},
      {"shared_memory", messages.is_memory_shared},
      {"servers", servers},
      {"pushed_bytes_per_step", moved},
      {"pulled_bytes_per_step", moved}};
}

Json Memory(const JobPlan& plan) {
  Json pods = Json::array();
  for (const PlannedPods& role : plan.memory.pods) {
    pods.push_back({{"role", api::RoleKey(role.role)},
                    {"count", role.count},
                    {"bytes", role.bytes},
                    {"limit", OrNull(role.limit)}});
  }
  const ReplicaMemory& replica = plan.memory.replica;
  Json json = {{"replica",
                {{"process", replica.process},
                 {"data_sets", replica.data_sets},
                 {"batches", replica.batches},
                 {"parameters", replica.parameters},
                 {"gradients", replica.gradients},
                 {"optimizer", replica.optimizer},
                 {"activations", replica.activations},
                 {"scratch", replica.scratch},
                 {"staging", replica.staging},
                 {"step", replica.step},
                 {"server_values", replica.servers},
                 {"best_model", replica.best},
                 {"checkpoint", replica.checkpoint},
                 {"total", replica.total()}}},
               {"pods", std::move(pods)},
               {"job", plan.memory.job},
               {"available", plan.available},
               {"fits", plan.refusal.empty()},
               {"largest_batch", nullptr}};
  if (plan.largest) {
    json["largest_batch"] = {{"per_replica", plan.largest->per_replica},
                             {"global", plan.largest->global}};
  }
  return json;
}

}  // namespace

nlohmann::ordered_json PlanToJson(const JobPlan& plan) {
  const std::string& model = plan.training.model.name;
  Json json = {{"job", plan.identity.job},
               {"model", model.empty() ? Json() : Json(model)},
               {"strategy", api::NameOf(plan.identity.strategy.type)},
               {"variant", OrNull(plan.variant)},
               {"replicas", Replicas(plan)},
               {"data", Data(plan)},
               {"layers", Layers(plan)}};
  AddTotals(plan, json);
  json["stages"] = Stages(plan);
  json["steps"] = Steps(plan.steps);
  json["early_stopping"] = EarlyStopping(plan);
  json["communication"] = Communication(plan.messages);
  json["checkpoint_bytes"] = plan.checkpoint;
  json["memory"] = Memory(plan);
  json["refusal"] = plan.refusal.empty() ? Json() : Json(plan.refusal);
  return json;
}

}  // namespace lockstep::train
