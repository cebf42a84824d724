#include "trainer/nn/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "trainer/backend/window.h"

namespace lockstep::train {
namespace {

// The limit of one activation or parameter. Above it, libraries with 32-bit offsets overflow.
constexpr double kMaxElements = 2147483647.0;
// The base of Dropout's random streams, distinct from those of InitialValues.
constexpr std::uint64_t kDropoutStreams = std::uint64_t{2} << 32;

using MadeOp = absl::StatusOr<std::unique_ptr<Op>>;

absl::Status Fault(const std::string& path, const std::string& text) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", path, text));
}

class Compiler {
 public:
  Compiler(const ModelOptions& options, Backend& backend) : options_(options), backend_(backend) {
    std::vector<std::int64_t> dims = {options.batch};
    dims.insert(dims.end(), options.input.dims().begin(), options.input.dims().end());
    desc_.shape = Shape(std::move(dims));
    flat_ = desc_.shape.rank() == 2;
  }

  absl::Status Add(const Layer& layer) {
    index_ = layer.index;
    path_ = fmt::format("layers[{}]", index_);
    LOCKSTEP_ASSIGN_OR_RETURN(
        std::unique_ptr<Op> op,
        std::visit([this](const auto& spec) { return Make(spec); }, layer.spec));
    if (op != nullptr) Push(layer.name, std::move(op));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<NamedOp>> Finish() && {
    const std::int64_t values = desc_.shape.elements() / options_.batch;
    if (!flat_ || values != options_.classes) {
      return Fault(path_, fmt::format("the last layer gives {} a sample, expected [{}], one value "
                                      "for each class of the data set",
                                      SampleText(), options_.classes));
    }
    if (ops_.empty() || !desc_.dense() || desc_.shape.rank() != 2) {
      Push("logits", backend_.MakeOp(FlattenSpec{.x = desc_}));
    }
    return std::move(ops_);
  }

 private:
  MadeOp Make(Conv2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("Conv2D"));
    const WindowAxis rows = PlaceWindow(desc_.shape[2], spec.kernel_h, spec.stride_h, spec.padding);
    const WindowAxis columns =
        PlaceWindow(desc_.shape[3], spec.kernel_w, spec.stride_w, spec.padding);
    LOCKSTEP_RETURN_IF_ERROR(ExpectFit("kernelSize", rows, columns));
    const double filters = static_cast<double>(spec.filters);
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize(
        "filters", filters * static_cast<double>(options_.batch * rows.out * columns.out),
        filters * static_cast<double>(desc_.shape[1]) *
            static_cast<double>(spec.kernel_h * spec.kernel_w)));
    spec.x = desc_;
    spec.input_gradient = trainable_before_;
    return backend_.MakeOp(spec);
  }

  MadeOp Make(DenseSpec spec) {
    if (!flat_) {
      return Fault(path_, fmt::format("Dense on an input of {} a sample, expected Flatten or "
                                      "GlobalAveragePooling2D before it",
                                      SampleText()));
    }
    const double units = static_cast<double>(spec.units);
    const std::int64_t inputs = desc_.shape.elements() / options_.batch;
    LOCKSTEP_RETURN_IF_ERROR(ExpectSize("units", units * static_cast<double>(options_.batch),
                                        units * static_cast<double>(inputs)));
    spec.x = desc_;
    spec.input_gradient = trainable_before_;
    return backend_.MakeOp(spec);
  }

  MadeOp Make(Pool2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("a pool"));
    LOCKSTEP_RETURN_IF_ERROR(ExpectFit(
        "poolSize", PlaceWindow(desc_.shape[2], spec.window_h, spec.stride_h, spec.padding),
        PlaceWindow(desc_.shape[3], spec.window_w, spec.stride_w, spec.padding)));
    spec.x = desc_;
    return backend_.MakeOp(spec);
  }

  MadeOp Make(GlobalAveragePool2dSpec spec) {
    LOCKSTEP_RETURN_IF_ERROR(ExpectImage("GlobalAveragePooling2D"));
    flat_ = true;
    spec.x = desc_;
    return backend_.MakeOp(spec);
  }

  // Unlike an elementwise op, BatchNorm must know whether its channels are C or C*H*W.
  MadeOp Make(BatchNormSpec spec) {
    if (flat_ && desc_.shape.rank() != 2) Push("flatten", backend_.MakeOp(FlattenSpec{.x = desc_}));
    spec.x = desc_;
    return backend_.MakeOp(spec);
  }

  MadeOp Make(FlattenSpec) {
    flat_ = true;
    if (desc_.dense()) desc_.shape = {options_.batch, desc_.shape.elements() / options_.batch};
    return std::unique_ptr<Op>();
  }

  MadeOp Make(ActivationSpec spec) {
    spec.x = desc_;
    return backend_.MakeOp(spec);
  }

  MadeOp Make(DropoutSpec spec) {
    spec.x = desc_;
    spec.layer = kDropoutStreams + index_;
    return backend_.MakeOp(spec);
  }

  void Push(std::string name, std::unique_ptr<Op> op) {
    desc_ = op->output();
    const bool trainable = !op->Parameters().empty();
    ops_.push_back(
        {.name = std::move(name), .op = std::move(op), .input_gradient = trainable_before_});
    trainable_before_ |= trainable;
  }

  absl::Status ExpectImage(const char* what) const {
    if (!flat_ && desc_.shape.rank() == 4) return absl::OkStatus();
    return Fault(path_, fmt::format("{} on an input of {} a sample, expected an image [C,H,W]",
                                    what, SampleText()));
  }

  absl::Status ExpectFit(const char* field, const WindowAxis& rows,
                         const WindowAxis& columns) const {
    if (rows.out > 0 && columns.out > 0) return absl::OkStatus();
    return Fault(fmt::format("{}.{}", path_, field),
                 fmt::format("found {}x{} on an image of {}x{}, expected at most the image's size "
                             "or padding \"same\"",
                             rows.size, columns.size, rows.in, columns.in));
  }

  absl::Status ExpectSize(const char* field, double outputs, double weights) const {
    const double largest = std::max(outputs, weights);
    if (largest <= kMaxElements) return absl::OkStatus();
    return Fault(fmt::format("{}.{}", path_, field),
                 fmt::format("makes a tensor of {:.3g} elements, expected at most {:.3g}", largest,
                             kMaxElements));
  }

  // "[32,14,14]", or "[6272]" if flat.
  std::string SampleText() const {
    if (flat_) return fmt::format("[{}]", desc_.shape.elements() / options_.batch);
    const auto& dims = desc_.shape.dims();
    return Shape(std::vector<std::int64_t>(dims.begin() + 1, dims.end())).ToString();
  }

  const ModelOptions& options_;
  Backend& backend_;
  std::vector<NamedOp> ops_;
  TensorDesc desc_;    // input of the next layer
  bool flat_ = false;  // logically N,F, though desc_ may still be an image in some layout
  bool trainable_before_ = false;
  std::string path_ = "layers";
  std::size_t index_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<NamedOp>> CompileLayers(const std::vector<Layer>& layers,
                                                   const ModelOptions& options, Backend& backend) {
  Compiler compiler(options, backend);
  for (const Layer& layer : layers) LOCKSTEP_RETURN_IF_ERROR(compiler.Add(layer));
  return std::move(compiler).Finish();
}

}  // namespace lockstep::train
