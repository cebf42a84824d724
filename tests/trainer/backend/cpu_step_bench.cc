// Where a training step's time goes, op by op: cpu_step_bench MODEL THREADS [BATCH] [STEPS].
// Times are minima over the steps in ms, with one thread of its CPU time (other programs then
// hardly matter); an SGEMM in between says what the machine gives just now.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "trainer/backend/backend.h"
#include "trainer/core/arena.h"
#include "trainer/core/rng.h"
#include "trainer/models/models.h"
#include "trainer/nn/model.h"

namespace lockstep::train {
namespace {

clockid_t g_clock = CLOCK_MONOTONIC;

double Now() {
  timespec now;
  ::clock_gettime(g_clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// Minimum of every named piece of a step, in order of first use.
class Times {
 public:
  void Measure(const std::string& name, const std::function<void()>& run) {
    const double start = Now();
    run();
    const double took = Now() - start;
    auto [at, fresh] = minima_.try_emplace(name, took);
    if (fresh) order_.push_back(name);
    at->second = std::min(at->second, took);
  }
  void Print() const {
    double sum = 0;
    for (const auto& name : order_) {
      std::printf("  %-28s %8.3f\n", name.c_str(), minima_.at(name));
      sum += minima_.at(name);
    }
    std::printf("  %-28s %8.3f\n", "sum of minima", sum);
  }

 private:
  std::map<std::string, double> minima_;
  std::vector<std::string> order_;
};

class TimedOp final : public Op {
 public:
  TimedOp(Times& times, const std::string& name, std::unique_ptr<Op> op)
      : times_(times),
        forward_(name + " forward"),
        backward_(name + " backward"),
        op_(std::move(op)) {}
  const TensorDesc& input() const override { return op_->input(); }
  const TensorDesc& output() const override { return op_->output(); }
  std::vector<ParameterDesc> Parameters() const override { return op_->Parameters(); }
  std::vector<ParameterDesc> States() const override { return op_->States(); }
  std::size_t WorkspaceBytes() const override { return op_->WorkspaceBytes(); }
  std::size_t ScratchBytes() const override { return op_->ScratchBytes(); }
  bool InPlace() const override { return op_->InPlace(); }
  void Bind(const OpMemory& memory) override { op_->Bind(memory); }
  void Forward(const StepContext& step) override {
    times_.Measure(forward_, [&] { op_->Forward(step); });
  }
  void Backward(const StepContext& step) override {
    times_.Measure(backward_, [&] { op_->Backward(step); });
  }

 private:
  Times& times_;
  std::string forward_, backward_;
  std::unique_ptr<Op> op_;
};

// A back end whose ops are timed.
class TimedBackend final : public Backend {
 public:
  TimedBackend(Backend& inner, Times& times) : inner_(inner), times_(times) {}
  std::string Name() const override { return inner_.Name(); }
  std::unique_ptr<Op> MakeConv2d(const Conv2dSpec& s) override {
    return Time("conv", inner_.MakeConv2d(s));
  }
  std::unique_ptr<Op> MakeDense(const DenseSpec& s) override {
    return Time("dense", inner_.MakeDense(s));
  }
  std::unique_ptr<Op> MakePool2d(const Pool2dSpec& s) override {
    return Time("pool", inner_.MakePool2d(s));
  }
  std::unique_ptr<Op> MakeGlobalAveragePool2d(const TensorDesc& x) override {
    return Time("global average", inner_.MakeGlobalAveragePool2d(x));
  }
  std::unique_ptr<Op> MakeBatchNorm(const BatchNormSpec& s) override {
    return Time("batch norm", inner_.MakeBatchNorm(s));
  }
  std::unique_ptr<Op> MakeRelu(const TensorDesc& x) override {
    return Time("relu", inner_.MakeRelu(x));
  }
  std::unique_ptr<Op> MakeDropout(const DropoutSpec& s) override {
    return Time("dropout", inner_.MakeDropout(s));
  }
  std::unique_ptr<LossOp> MakeSoftmaxCrossEntropy(std::int64_t rows, std::int64_t k) override {
    return inner_.MakeSoftmaxCrossEntropy(rows, k);
  }
  std::unique_ptr<OptimizerOp> MakeSgd(const SgdSpec& s) override { return inner_.MakeSgd(s); }
  std::unique_ptr<OptimizerOp> MakeAdam(const AdamSpec& s) override { return inner_.MakeAdam(s); }
  void ConvertInput(const std::uint8_t* x, float* y, std::int64_t n, float scale) override {
    inner_.ConvertInput(x, y, n, scale);
  }
  void ToDense(const TensorDesc& from, const void* source, float* target) override {
    inner_.ToDense(from, source, target);
  }
  void FromDense(const float* source, const TensorDesc& to, void* target) override {
    inner_.FromDense(source, to, target);
  }

 private:
  std::unique_ptr<Op> Time(const std::string& kind, std::unique_ptr<Op> op) {
    if (op == nullptr) return op;
    return std::make_unique<TimedOp>(times_, std::to_string(++count_) + " " + kind, std::move(op));
  }
  Backend& inner_;
  Times& times_;
  int count_ = 0;
};

double SgemmGflops() {
  constexpr std::int64_t kSize = 768;
  static std::vector<float> a(kSize * kSize, 1), b(kSize * kSize, 1), c(kSize * kSize);
  const double start = Now();
  dnnl::sgemm('N', 'N', kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0, c.data(),
              kSize);
  return 2e-6 * kSize * kSize * kSize / (Now() - start);
}

struct Batch {
  explicit Batch(std::int64_t rows)
      : pixels(static_cast<std::size_t>(rows) * 784),
        labels(static_cast<std::size_t>(rows)),
        weights(static_cast<std::size_t>(rows), 1.0f) {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(Philox(1, i, 0)[0] & 255);
    }
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  }
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  std::vector<float> weights;
};

int Run(const std::string& name, int threads, std::int64_t rows, int steps) {
  if (threads == 1) g_clock = CLOCK_THREAD_CPUTIME_ID;
  const auto backend = MakeBackend({.name = "cpu", .threads = threads});
  Times times;
  TimedBackend timed(*backend, times);
  const auto layers = BundledModel(name, 10);
  auto built = Model::Build(*layers, {.batch = rows, .input = {1, 28, 28}, .classes = 10}, timed);
  Model& model = **built;
  model.InitializeParameters();
  const std::size_t floats = model.parameters().size();
  Arena slots;
  slots.Reserve(8 * floats);
  slots.Allocate();
  const auto adam = backend->MakeAdam({});
  adam->Bind({.values = model.parameters().data(),
              .gradients = model.gradients().data(),
              .slots = {slots.At<float>(0), slots.At<float>(4 * floats)},
              .size = static_cast<std::int64_t>(floats)});
  const Batch batch(rows);
  const auto loss = backend->MakeSoftmaxCrossEntropy(rows, 10);
  loss->Bind({.logits = model.logits(),
              .dlogits = model.logits_gradient(),
              .labels = batch.labels.data(),
              .weights = batch.weights.data()});

  double best = 1e9, gflops = 0, last_loss = 0;
  for (int i = 0; i < steps; ++i) {
    const StepContext step{.training = true, .valid = rows, .step = static_cast<std::uint64_t>(i)};
    const double start = Now();
    times.Measure("convert", [&] {
      backend->ConvertInput(batch.pixels.data(), model.input(), rows * 784, 1.0f / 255);
    });
    model.Forward(step);
    times.Measure("loss", [&] { last_loss = loss->Run(1.0f / static_cast<float>(rows)).loss; });
    model.Backward(step, [](std::int64_t, std::int64_t) {});
    times.Measure("adam", [&] { adam->Step(0.001f, i + 1); });
    best = std::min(best, Now() - start);
    if (i % 8 == 0) gflops = std::max(gflops, SgemmGflops());
  }
  const double count = static_cast<double>(rows);
  std::printf(
      "%s, %d threads, batch %.0f: %.3f ms a step, %.0f images/s (loss %.4f; sgemm %.0f "
      "GFLOP/s; %.1f MB)\n",
      name.c_str(), threads, count, best, 1e3 * count / best, last_loss / count, gflops,
      static_cast<double>(model.MemoryBytes()) / 1e6);
  times.Print();
  return 0;
}

}  // namespace
}  // namespace lockstep::train

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return i < argc ? std::atoi(argv[i]) : otherwise;
  };
  return lockstep::train::Run(argc > 1 ? argv[1] : "core-cnn", number(2, 1), number(3, 128),
                              number(4, 50));
}
