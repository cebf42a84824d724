#include "operator/cli/text/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/printable.h"
#include "base/text_table.h"
#include "operator/cli/text/one_line.h"

namespace lockstep::cli {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t NumberAt(const Json& json, const char* key) {
  return json.at(key).get<std::int64_t>();
}

// "1.23 GFLOPs"
std::string FlopText(std::int64_t flops) {
  auto value = static_cast<double>(flops);
  const char* unit = "";
  for (const char* larger : {"k", "M", "G", "T"}) {
    if (value < 1000) break;
    value /= 1000;
    unit = larger;
  }
  return fmt::format("{:.3g} {}FLOPs", value, unit);
}

std::string ShapeText(const Json& shape) {
  return fmt::format("({})", fmt::join(shape.get<std::vector<std::int64_t>>(), ", "));
}

std::string LayerTable(const Json& plan) {
  std::vector<TextRow> rows = {{"Layer (type)", "Output shape", "Parameters", "FLOPs a sample"}};
  for (const Json& layer : plan.at("layers")) {
    const std::int64_t flops = NumberAt(layer, "flops_per_sample");
    rows.push_back({OneLine(fmt::format("{} ({})", layer.at("name").get<std::string>(),
                                        layer.at("type").get<std::string>())),
                    ShapeText(layer.at("output_shape")),
                    WithCommas(NumberAt(layer, "parameters") + NumberAt(layer, "other_parameters")),
                    flops > 0 ? WithCommas(flops) : ""});
  }
  return TextTable(rows, {.gap = 2, .numbers = 2});
}

// What each stage has, and what a step costs because the first and the last micro-batch are alone
// in the pipeline; nothing for a whole model.
std::string StageLines(const Json& plan) {
  const Json& stages = plan.at("stages");
  if (stages.empty()) return "";
  std::vector<TextRow> rows = {{"Stage", "Layers", "Parameters", "FLOPs a sample", "Memory"}};
  for (const Json& stage : stages) {
    rows.push_back({std::to_string(rows.size() - 1),
                    OneLine(fmt::format("{} to {}", stage.at("first_layer").get<std::string>(),
                                        stage.at("last_layer").get<std::string>())),
                    WithCommas(NumberAt(stage, "parameters")),
                    WithCommas(NumberAt(stage, "training_flops_per_sample")),
                    ByteText(NumberAt(stage, "memory_bytes"))});
  }
  const auto waits = static_cast<double>(stages.size() - 1);
  const std::int64_t parts = NumberAt(plan.at("steps"), "parts");
  return fmt::format("\n{}Idle: each stage for {:.0f} % of a step or more (micro-batches: {})\n",
                     TextTable(rows, {.gap = 2, .numbers = 3}),
                     100 * waits / (static_cast<double>(parts) + waits), parts);
}

std::string DataLine(const Json& data) {
  const auto samples = [&](const char* key, const char* what) {
    return data.at(key).is_null() ? fmt::format("an unknown number of {} samples", what)
                                  : Plural(NumberAt(data, key), fmt::format("{} sample", what));
  };
  std::string line =
      fmt::format("Data: {} of {} {}", samples("training_samples", "training"),
                  data.at("element").get<std::string>(), ShapeText(data.at("sample_shape")));
  line += data.at("classes").is_null()
              ? fmt::format(", labels of {}", Plural(NumberAt(data, "label_numbers"), "number"))
              : fmt::format(", {} classes", WithCommas(NumberAt(data, "classes")));
  if (!data.at("test_samples").is_null()) line += "; " + samples("test_samples", "test");
  return line + (data.at("opened").get<bool>() ? "" : " (no file was opened)") + "\n";
}

std::string StepLines(const Json& steps, bool may_stop_early) {
  std::string text = fmt::format(
      "Batch: {}, {} per replica{}\n", Plural(NumberAt(steps, "global_batch"), "sample"),
      WithCommas(NumberAt(steps, "batch_per_replica")),
      NumberAt(steps, "parts") > 1 ? fmt::format(" in {} parts", NumberAt(steps, "parts")) : "");
  if (steps.at("per_epoch").is_null()) {
    text += "Steps: how many an epoch has is not known without the number of samples";
  } else {
    text += fmt::format("Steps: {} an epoch, with {} of weight 0, and no sample left out",
                        WithCommas(NumberAt(steps, "per_epoch")),
                        Plural(NumberAt(steps, "padded_per_epoch"), "padding row"));
    if (const std::int64_t dropped = NumberAt(steps, "dropped_per_epoch"); dropped != 0) {
      text.replace(text.rfind("no sample left out"), std::string::npos,
                   Plural(dropped, "sample") + " left out");
    }
  }
  if (!steps.at("total").is_null()) {
    text += fmt::format("; {}{} in all", may_stop_early ? "at most " : "",
                        WithCommas(NumberAt(steps, "total")));
  }
  return text + "\n";
}

// "Early stopping: after 3 evaluations in a row whose Loss is not better than the best so far"
std::string EarlyStoppingLine(const Json& stopping) {
  if (stopping.is_null()) return "";
  const std::int64_t patience = NumberAt(stopping, "patience");
  const auto delta = stopping.at("min_delta").get<double>();
  std::string line =
      fmt::format("Early stopping: after {} whose {} is not better than the best so far{}",
                  patience == 1 ? "the first evaluation"
                                : fmt::format("{} evaluations in a row", WithCommas(patience)),
                  stopping.at("metric").get<std::string>(),
                  delta > 0 ? fmt::format(" by more than {}", delta) : "");
  if (const std::int64_t every = NumberAt(stopping, "every_epochs"); every > 1) {
    line += fmt::format("; one every {} epochs", WithCommas(every));
  }
  if (const std::int64_t first = NumberAt(stopping, "start_from_epoch"); first > 0) {
    line += fmt::format("; those of the first {} do not count", Plural(first, "epoch"));
  }
  return line + (stopping.at("restore_best").get<bool>()
                     ? "; the job ends with the model of its best evaluation\n"
                     : "; the job ends with the model of its last step\n");
}

std::string CommunicationLine(const Json& communication) {
  const std::int64_t buckets = NumberAt(communication, "bucket_count");
  const std::size_t servers = communication.at("servers").size();
  if (servers > 0) {
    return fmt::format("Communication: a step pulls {} from {} and pushes {} to them\n",
                       ByteText(NumberAt(communication, "pulled_bytes_per_step")),
                       Plural(static_cast<std::int64_t>(servers), "parameter server"),
                       ByteText(NumberAt(communication, "pushed_bytes_per_step")));
  }
  if (buckets == 0) return "Communication: none\n";
  std::string line = fmt::format(
      "Communication: {} of {} in all are summed in a step; {}", Plural(buckets, "gradient bucket"),
      ByteText(NumberAt(communication, "all_reduced_bytes_per_step")),
      communication.at("shared_memory").get<bool>()
          ? "replicas share memory, so that nothing is sent"
          : fmt::format("by a ring, a replica sends {}",
                        ByteText(NumberAt(communication, "sent_bytes_per_step"))));
  if (const std::int64_t bytes = NumberAt(communication, "broadcast_bytes_per_step"); bytes > 0) {
    line += fmt::format("; rank 0 sends each other replica its parameters of {}", ByteText(bytes));
  }
  if (const std::int64_t bytes = NumberAt(communication, "exchanged_bytes_per_step"); bytes > 0) {
    line += fmt::format("; then it sends parameters of {} that it has updated", ByteText(bytes));
  }
  return line + "\n";
}

// "Start order: Worker once PS is ready"; nothing if all roles start at once.
std::string StartOrderLine(const Json& order) {
  std::vector<std::string> roles;
  for (const Json& role : order) {
    std::vector<std::string> awaited;
    for (const Json& each : role.at("depends_on")) {
      const bool is_ready = each.at("status") == "Ready";
      awaited.push_back(fmt::format("{} {}", each.at("role").get<std::string>(),
                                    is_ready ? "is ready" : "has completed"));
    }
    roles.push_back(
        fmt::format("{} once {}", role.at("role").get<std::string>(), fmt::join(awaited, " and ")));
  }
  return roles.empty() ? "" : fmt::format("Start order: {}\n", fmt::join(roles, "; "));
}

std::string MemoryLines(const Json& plan) {
  const Json& memory = plan.at("memory");
  const Json& replica = memory.at("replica");
  std::string parts;
  for (const auto& [name, bytes] : replica.items()) {
    const auto size = bytes.get<std::int64_t>();
    if (name == "total" || size < (1 << 20)) continue;  // the rest is too small to matter
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", words, ByteText(size));
  }
  std::string text =
      fmt::format("Memory of a replica: {} ({})\n", ByteText(NumberAt(replica, "total")), parts);
  for (const Json& pods : memory.at("pods")) {
    const Json& limit = pods.at("limit");
    text += fmt::format(
        "Memory of a pod of {}: {}{}\n", pods.at("role").get<std::string>(),
        ByteText(NumberAt(pods, "bytes")),
        limit.is_null() ? ", without a limit" : " of " + ByteText(limit.get<std::int64_t>()));
  }
  text += fmt::format("Memory of all pods: {}; this machine has {} available\n",
                      ByteText(NumberAt(memory, "job")), ByteText(NumberAt(memory, "available")));
  if (plan.at("replicas").at("device") != "cuda") return text;
  return text +
         "Memory of the GPUs: not known, and in none of these numbers; nor is what CUDA's "
         "libraries "
         "take of the pods' memory. Without GPUs, the replicas compute on the CPU and need more\n";
}

}  // namespace

std::string WithCommas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t i = text.size(); i > 3 && text[i - 4] != '-';) text.insert(i -= 3, ",");
  return text;
}

std::string Plural(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", WithCommas(count), noun, count == 1 ? "" : "s");
}

std::string ByteText(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1024) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string PlanText(const Json& plan) {
  const Json& replicas = plan.at("replicas");
  const Json& parameters = plan.at("parameters");
  const Json& flops = plan.at("flops_per_sample");
  std::string text = fmt::format(
      "Job {}{}: {}, {} of {}, {} each on {}\n\n", plan.at("job").get<std::string>(),
      plan.at("model").is_null() ? "" : ", model " + plan.at("model").get<std::string>(),
      plan.at("strategy").get<std::string>(), Plural(NumberAt(replicas, "pods"), "pod"),
      Plural(NumberAt(replicas, "per_pod"), "replica"),
      Plural(NumberAt(replicas, "threads"), "thread"), replicas.at("device").get<std::string>());
  if (!plan.at("variant").is_null()) {
    text += fmt::format("Variant {}, which needs the most memory:\n", NumberAt(plan, "variant"));
  }
  text += LayerTable(plan);
  text += StageLines(plan);
  text += fmt::format(
      "\nParameters: {} trainable, {} other ({})\n", WithCommas(NumberAt(parameters, "trainable")),
      WithCommas(NumberAt(parameters, "other")), ByteText(NumberAt(parameters, "bytes")));
  text += fmt::format("A sample: {} forward, {} in training\n",
                      FlopText(NumberAt(flops, "forward")), FlopText(NumberAt(flops, "training")));
  text += DataLine(plan.at("data"));
  const Json& stopping = plan.at("early_stopping");
  text += StepLines(plan.at("steps"), !stopping.is_null());
  text += EarlyStoppingLine(stopping);
  text += StartOrderLine(plan.at("start_order"));
  text += CommunicationLine(plan.at("communication"));
  text += fmt::format("Checkpoint: {}\n", ByteText(NumberAt(plan, "checkpoint_bytes")));
  return Printable(text + MemoryLines(plan));
}

}  // namespace lockstep::cli
