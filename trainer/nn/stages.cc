#include "trainer/nn/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/digest.h"
#include "base/status.h"

namespace lockstep::train {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// How many operations a processor does while it moves a byte. The order of magnitude of both CPUs
// and GPUs; it decides only between convolutions and what lies between them.
constexpr double kOperationsPerByte = 8;
// A forward pass reads and writes an op's tensors once, a backward pass about twice.
constexpr double kPassesOverMemory = 3;
// The value, the gradient, and the two slots of Adam.
constexpr double kCopiesOfParameters = 4;
constexpr double kMostSlower = 1.05;

// Without what a processor's layout adds: all kinds of processors cut alike.
double Bytes(const TensorDesc& tensor) {
  return static_cast<double>(tensor.shape.elements()) * static_cast<double>(SizeOf(tensor.dtype));
}

double Bytes(const std::vector<ParameterDesc>& tensors) {
  double bytes = 0;
  for (const ParameterDesc& tensor : tensors) bytes += Bytes(tensor.desc);
  return bytes;
}

// Sums over the ops before a place.
struct Costs {
  double time = 0;         // in floating-point operations
  double parameters = 0;   // bytes
  double activations = 0;  // bytes, of one micro-batch
  int parameter_tensors = 0;
};

Costs After(const Costs& before, const NamedOp& op) {
  double moved = Bytes(op.op->output());
  for (const TensorDesc& x : op.op->inputs()) moved += Bytes(x);
  const std::vector<ParameterDesc> parameters = op.op->Parameters();
  moved += Bytes(parameters);
  return {.time = before.time + op.facts.forward_flops + op.facts.backward_flops +
                  kPassesOverMemory * kOperationsPerByte * moved,
          .parameters = before.parameters + Bytes(parameters),
          .activations = before.activations + Bytes(op.op->output()),
          .parameter_tensors = before.parameter_tensors + static_cast<int>(parameters.size())};
}

// A place between two ops at which a model may be cut, or one of its ends.
struct Place {
  int op = 0;    // the first one after it
  Costs before;  // of all ops before it
};

// Returns the last op that reads `tensor`: an op's output, or kSamples. If none does, `tensor`.
int LastReader(const std::vector<NamedOp>& ops, int tensor) {
  int last = tensor;
  for (int i = 0; i < std::ssize(ops); ++i) {
    if (std::ranges::count(ops[static_cast<std::size_t>(i)].inputs, tensor) > 0) last = i;
  }
  return last;
}

// Only the output of the last op before a place may be read after it.
std::vector<Place> PlacesOf(const std::vector<NamedOp>& ops) {
  std::vector<Place> places = {{.op = 0, .before = {}}};
  Costs costs;
  // The last op to read the samples, or the output of an op before the last one so far.
  int last_reader = LastReader(ops, kSamples);
  for (int i = 0; i < std::ssize(ops); ++i) {
    costs = After(costs, ops[static_cast<std::size_t>(i)]);
    const int next = i + 1;
    if (next == std::ssize(ops) || last_reader < next) places.push_back({next, costs});
    last_reader = std::max(last_reader, LastReader(ops, i));
  }
  return places;
}

class Cutter {
 public:
  Cutter(std::vector<Place> places, int stages)
      : places_(std::move(places)), count_(places_.size()), stages_(stages) {}

  absl::StatusOr<std::vector<int>> Cut() {
    Table times =
        Fill([this](int, std::size_t begin, std::size_t end) { return TimeOf(begin, end); });
    const double fastest = times.back().back().cost;
    if (fastest == kNever) return TooMany(times);
    const double limit = kMostSlower * fastest;
    const Table memory = Fill([this, limit](int stage, std::size_t begin, std::size_t end) {
      return TimeOf(begin, end) > limit ? kNever : MemoryOf(stage, begin, end);
    });
    return Follow(memory);
  }

 private:
  // The best way to end stages 0 to k at a place: what its worst stage costs, and where the last
  // one begins.
  struct Best {
    double cost = kNever;
    std::size_t begin = 0;
  };
  using Table = std::vector<std::vector<Best>>;  // by stage, then by the place of its end

  template <typename Cost>
  Table Fill(const Cost& cost) const {
    Table table(static_cast<std::size_t>(stages_), std::vector<Best>(count_));
    for (int stage = 0; stage < stages_; ++stage) {
      std::vector<Best>& row = table[static_cast<std::size_t>(stage)];
      for (std::size_t end = 1; end < count_; ++end) {
        for (std::size_t begin = 0; begin < end; ++begin) {
          const double before = stage > 0 ? table[static_cast<std::size_t>(stage - 1)][begin].cost
                                : begin == 0 ? 0
                                             : kNever;
          const double worst = std::max(before, cost(stage, begin, end));
          if (worst < row[end].cost) row[end] = {.cost = worst, .begin = begin};
        }
      }
    }
    return table;
  }

  // Infinite for what is no stage.
  double TimeOf(std::size_t begin, std::size_t end) const {
    const Costs &from = places_[begin].before, &to = places_[end].before;
    return from.parameter_tensors == to.parameter_tensors ? kNever : to.time - from.time;
  }

  double MemoryOf(int stage, std::size_t begin, std::size_t end) const {
    const Costs &from = places_[begin].before, &to = places_[end].before;
    return kCopiesOfParameters * (to.parameters - from.parameters) +
           (stages_ - stage) * (to.activations - from.activations);
  }

  std::vector<int> Follow(const Table& table) const {
    std::vector<int> begins(static_cast<std::size_t>(stages_));
    std::size_t end = count_ - 1;
    for (std::size_t stage = begins.size(); stage-- > 0;) {
      end = table[stage][end].begin;
      begins[stage] = places_[end].op;
    }
    return begins;
  }

  absl::Status TooMany(const Table& times) const {
    int most = 0;
    for (int stage = 0; stage < stages_; ++stage) {
      if (times[static_cast<std::size_t>(stage)].back().cost < kNever) most = stage + 1;
    }
    return absl::InvalidArgumentError(fmt::format(
        "spec.strategy.stages: found {}, expected at most {}: the model can be cut only where one "
        "tensor connects the layers before with those after, and each stage needs parameters",
        stages_, most));
  }

  const std::vector<Place> places_;
  const std::size_t count_;
  const int stages_;
};

void AppendTensors(const NamedOp& op, ModelPart& part) {
  for (const ParameterDesc& parameter : op.op->Parameters()) {
    part.parameters.Append(op.name, parameter);
  }
  for (const ParameterDesc& state : op.op->States()) part.states.Append(op.name, state);
}

std::string TextOf(const TensorDesc& desc) {
  return fmt::format("{} {} {}", DTypeName(desc.dtype), desc.shape.ToString(),
                     desc.dense() ? "dense" : desc.layout->Fingerprint());
}

// The ops of a stage see the output of the stage before as their samples.
void TakeOps(std::vector<NamedOp> ops, int begin, int end, ModelPart& part) {
  for (int i = begin; i < end; ++i) {
    NamedOp& op = part.ops.emplace_back(std::move(ops[static_cast<std::size_t>(i)]));
    for (int& input : op.inputs) {
      const bool is_ours = input >= begin;
      LOCKSTEP_CHECK(is_ours || input == begin - 1, "stages: op {} reads op {}, before stage {}", i,
                     input, begin);
      input = is_ours ? input - begin : kSamples;
    }
  }
}

}  // namespace

absl::StatusOr<std::vector<int>> CutIntoStages(const std::vector<NamedOp>& ops, int stages) {
  if (stages == 1) return std::vector<int>{0};
  return Cutter(PlacesOf(ops), stages).Cut();
}

absl::StatusOr<ModelPart> TakeStage(std::vector<NamedOp> ops, const ModelStage& stage) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<int> begins, CutIntoStages(ops, stage.count));
  begins.push_back(static_cast<int>(ops.size()));
  const auto own = static_cast<std::size_t>(stage.index);
  ModelPart part;
  std::uint64_t borders = kEmptyDigest;
  for (int i = 0; i < std::ssize(ops); ++i) {
    const NamedOp& op = ops[static_cast<std::size_t>(i)];
    if (i == begins[own]) {
      part.first_parameter = part.parameters.slots().size();
      part.first_state = part.states.slots().size();
    }
    AppendTensors(op, part);
    if (std::ranges::find(begins, i + 1) != begins.end()) {
      borders = Digest(fmt::format("{} {};", i, TextOf(op.op->output())), borders);
    }
  }
  if (stage.count > 1)
    part.fingerprint = fmt::format("stages={};borders={:016x};", stage.count, borders);
  TakeOps(std::move(ops), begins[own], begins[own + 1], part);
  return part;
}

}  // namespace lockstep::train
