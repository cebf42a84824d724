#include <algorithm>

#include "trainer/backend/cpu/bound_op.h"
#include "trainer/backend/cpu/ops.h"
#include "trainer/backend/cpu/portable/patches.h"
#include "trainer/backend/parameters.h"

namespace lockstep::train::cpu {
namespace {

// The size of a matrix of patches: it fits into the second-level cache.
constexpr std::int64_t kPatchFloats = 128 * 1024;

// y = act(b + weight patches), image by image: the weight is K x taps, the patches are taps x
// pixels and y is K x pixels, all row-major. The threads divide the images.
class Conv2d final : public BoundOp {
 public:
  Conv2d(const Device& device, const Conv2dSpec& spec, const Patches& patches)
      : BoundOp(device, spec.x,
                {.shape = {spec.x.shape[0], spec.filters, patches.rows.out, patches.columns.out}}),
        spec_(spec),
        patches_(patches),
        images_(spec.x.shape[0]),
        image_floats_(ViewOf(spec.x).row_floats()),
        pixels_(patches.rows.out * patches.columns.out),
        band_rows_(patches.BandRows(kPatchFloats)) {
    product_at_ = thread_scratch_.Reserve(kProductScratchFloats * sizeof(float));
    patches_at_ = thread_scratch_.Reserve(
        static_cast<std::size_t>(patches.taps() * band_rows_ * patches.columns.out) *
        sizeof(float));
    sums_at_ = thread_scratch_.Reserve(static_cast<std::size_t>(Sums()) * sizeof(float));
  }

  std::vector<ParameterDesc> Parameters() const override { return ParametersOf(spec_); }
  std::size_t ScratchBytes() const override {
    return static_cast<std::size_t>(device().threads) * thread_scratch_.bytes();
  }

  BackwardReads Reads() const override { return {.x = true, .y = spec_.relu}; }
  void Forward(Mode, const StepContext&) override {
    ForThreads([this](std::int64_t thread, std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) ForwardImage(n, thread);
    });
  }

  void Backward(const StepContext&) override {
    if (spec_.relu) MaskByRelu();
    ForThreads([this](std::int64_t thread, std::int64_t begin, std::int64_t end) {
      std::fill_n(Scratch(thread, sums_at_), Sums(), 0.0f);
      for (std::int64_t n = begin; n < end; ++n) {
        AddWeightGradient(n, thread);
        if (spec_.input_gradient && dx() != nullptr) InputGradient(n, thread);
      }
    });
    SumOverThreads();
  }

 private:
  // Rows [begin, end) of the output, with the matrix of their patches.
  struct Band {
    std::int64_t begin, end, first_pixel, pixels;
  };

  template <typename Body>
  void ForBands(Body body) const {
    for (std::int64_t begin = 0; begin < patches_.rows.out; begin += band_rows_) {
      const std::int64_t end = std::min(begin + band_rows_, patches_.rows.out);
      const std::int64_t width = patches_.columns.out;
      body(Band{begin, end, begin * width, (end - begin) * width});
    }
  }

  // Calls body(thread, begin, end) with each thread's images, which depend only on the batch and
  // the number of threads.
  template <typename Body>
  void ForThreads(Body body) const {
    const std::int64_t threads = device().threads;
    ParallelFor(device().threads, threads, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t thread = first; thread < last; ++thread) {
        body(thread, images_ * thread / threads, images_ * (thread + 1) / threads);
      }
    });
  }

  void ForwardImage(std::int64_t n, std::int64_t thread) const {
    float* y_image = y() + n * spec_.filters * pixels_;
    for (std::int64_t k = 0; spec_.bias && k < spec_.filters; ++k) {
      std::fill_n(y_image + k * pixels_, pixels_, memory().parameters[1][k]);
    }
    float* matrix = Scratch(thread, patches_at_);
    ForBands([&](const Band& band) {
      patches_.Gather(x() + n * image_floats_, band.begin, band.end, matrix);
      Multiply(thread, {.m = spec_.filters,
                        .n = band.pixels,
                        .k = patches_.taps(),
                        .a = memory().parameters[0],
                        .a_row = patches_.taps(),
                        .a_column = 1,
                        .b = matrix,
                        .b_row = band.pixels,
                        .b_column = 1,
                        .c = y_image + band.first_pixel,
                        .c_row = pixels_,
                        .add = spec_.bias});
    });
    if (spec_.relu) {
      device().kernels.activate(Activation::kRelu, 0, y_image, y_image, spec_.filters * pixels_);
    }
  }

  // dweight = sum over the images of dy patches^T, dbias = sum of dy's rows
  void AddWeightGradient(std::int64_t n, std::int64_t thread) const {
    const float* dy_image = dy() + n * spec_.filters * pixels_;
    float* matrix = Scratch(thread, patches_at_);
    float* sums = Scratch(thread, sums_at_);
    ForBands([&](const Band& band) {
      patches_.Gather(x() + n * image_floats_, band.begin, band.end, matrix);
      Multiply(thread, {.m = spec_.filters,
                        .n = patches_.taps(),
                        .k = band.pixels,
                        .a = dy_image + band.first_pixel,
                        .a_row = pixels_,
                        .a_column = 1,
                        .b = matrix,
                        .b_row = 1,
                        .b_column = band.pixels,
                        .c = sums,
                        .c_row = patches_.taps(),
                        .add = true});
    });
    float* bias = sums + spec_.filters * patches_.taps();
    for (std::int64_t k = 0; k < spec_.filters; ++k) {
      float sum = 0;
      for (std::int64_t pixel = 0; pixel < pixels_; ++pixel) sum += dy_image[k * pixels_ + pixel];
      bias[k] += sum;
    }
  }

  // dpatches = weight^T dy; each element is added to the float of dx that it came from
  void InputGradient(std::int64_t n, std::int64_t thread) const {
    float* dx_image = dx() + n * image_floats_;
    float* matrix = Scratch(thread, patches_at_);
    std::fill_n(dx_image, image_floats_, 0.0f);
    ForBands([&](const Band& band) {
      Multiply(thread, {.m = patches_.taps(),
                        .n = band.pixels,
                        .k = spec_.filters,
                        .a = memory().parameters[0],
                        .a_row = 1,
                        .a_column = patches_.taps(),
                        .b = dy() + n * spec_.filters * pixels_ + band.first_pixel,
                        .b_row = pixels_,
                        .b_column = 1,
                        .c = matrix,
                        .c_row = band.pixels,
                        .add = false});
      patches_.ScatterAdd(matrix, band.begin, band.end, dx_image);
    });
  }

  // Adds the threads' sums in the order of the threads.
  void SumOverThreads() const {
    const std::int64_t weights = spec_.filters * patches_.taps();
    ParallelForFloats(device().threads, weights, [&](std::int64_t begin, std::int64_t end) {
      SumRange(begin, end, memory().gradients[0] + begin);
    });
    if (spec_.bias) SumRange(weights, Sums(), memory().gradients[1]);
  }
  void SumRange(std::int64_t begin, std::int64_t end, float* target) const {
    std::copy_n(Scratch(0, sums_at_) + begin, end - begin, target);
    for (std::int64_t thread = 1; thread < device().threads; ++thread) {
      const float* sums = Scratch(thread, sums_at_) + begin;
      for (std::int64_t i = 0; i < end - begin; ++i) target[i] += sums[i];
    }
  }

  // The floats of a thread's gradients of weight and bias.
  std::int64_t Sums() const { return spec_.filters * (patches_.taps() + 1); }
  float* Scratch(std::int64_t thread, std::size_t offset) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(memory().scratch) +
                                    static_cast<std::size_t>(thread) * thread_scratch_.bytes() +
                                    offset);
  }
  void Multiply(std::int64_t thread, const Product& product) const {
    device().kernels.multiply(product, Scratch(thread, product_at_));
  }

  Conv2dSpec spec_;
  Patches patches_;
  std::int64_t images_, image_floats_, pixels_, band_rows_;
  ScratchPlan thread_scratch_;
  std::size_t product_at_ = 0, patches_at_ = 0, sums_at_ = 0;
};

}  // namespace

std::unique_ptr<Op> MakeOp(const Device& device, const Conv2dSpec& spec) {
  const auto [rows, columns] = WindowsOf(spec);
  return std::make_unique<Conv2d>(
      device, spec, Patches{.channels = spec.x.shape[1], .rows = rows, .columns = columns});
}

}  // namespace lockstep::train::cpu
