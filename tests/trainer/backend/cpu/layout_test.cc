#include "trainer/backend/cpu/layout.h"

#include <gtest/gtest.h>

#include "api/base/check.h"
#include "trainer/backend/backend.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;

memory::desc Ordered(const memory::dims& dims, memory::format_tag tag) {
  return {dims, memory::data_type::f32, tag};
}

TEST(LayoutTest, RowMajorNeedsNoLayout) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_TRUE(TensorOf(shape, Ordered(shape.dims(), memory::format_tag::nchw)).dense());
  EXPECT_FALSE(TensorOf(shape, Ordered(shape.dims(), memory::format_tag::nhwc)).dense());
}

TEST(LayoutTest, BytesCountThePaddingOfTheLastBlock) {
  const Shape shape{2, 20, 4, 5};
  const TensorDesc tensor = TensorOf(shape, Ordered(shape.dims(), memory::format_tag::nChw16c));
  EXPECT_EQ(tensor.bytes(), 2u * 32 * 4 * 5 * sizeof(float));
  const ImageView view = ViewOf(tensor);
  EXPECT_EQ(view.outer, 2);
  EXPECT_EQ(view.inner, 16);
  EXPECT_EQ(view.floats() * 4, static_cast<std::int64_t>(tensor.bytes()));
}

TEST(LayoutTest, FingerprintsTellOrdersApart) {
  const memory::dims dims = {2, 16, 4, 5};
  const DnnlLayout by16(Ordered(dims, memory::format_tag::nChw16c));
  const DnnlLayout by8(Ordered(dims, memory::format_tag::nChw8c));
  const DnnlLayout again(Ordered(dims, memory::format_tag::nChw16c));
  EXPECT_EQ(by16.Fingerprint(), again.Fingerprint());
  EXPECT_NE(by16.Fingerprint(), by8.Fingerprint());
}

TEST(LayoutTest, APoolKeepsTheOrderOfItsInput) {
  for (const auto tag : {memory::format_tag::nchw, memory::format_tag::nhwc,
                         memory::format_tag::nChw8c, memory::format_tag::nChw16c}) {
    const Shape from{2, 16, 8, 8}, to{2, 16, 4, 4};
    const TensorDesc pooled = WithExtents(TensorOf(from, Ordered(from.dims(), tag)), to);
    EXPECT_TRUE(MemoryDescOf(pooled) == Ordered(to.dims(), tag));
  }
}

// The weight of a dense layer on an image in blocks has two stages; both directions must undo each
// other and the padding must be zero, since the optimizer runs over it.
TEST(LayoutTest, ADenseWeightOnABlockedImageSurvivesTheRoundTrip) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 1});
  const auto conv = backend->MakeConv2d(
      {.x = {.shape = {2, 16, 5, 5}}, .filters = 20, .kernel_h = 3, .kernel_w = 3});
  const auto dense = backend->MakeDense({.x = conv->output(), .units = 7});
  const TensorDesc weight = dense->Parameters()[0].desc;
  EXPECT_EQ(weight.shape, (Shape{7, 20 * 9}));
  std::vector<float> values(static_cast<std::size_t>(weight.shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  std::vector<float> native(weight.bytes() / sizeof(float), -1.0f), back(values.size());
  backend->FromDense(values.data(), weight, native.data());
  backend->ToDense(weight, native.data(), back.data());
  EXPECT_EQ(back, values);
  double sum = 0;
  for (const float value : native) sum += value;
  const double count = static_cast<double>(values.size());
  EXPECT_EQ(sum, count * (count + 1) / 2);
}

class ForeignLayout final : public Layout {
 public:
  std::size_t Bytes() const override { return 4; }
  std::string Fingerprint() const override { return "foreign"; }
};

TEST(LayoutTest, AnotherBackEndsLayoutIsRefused) {
  const TensorDesc tensor{.shape = {1, 1}, .layout = std::make_shared<ForeignLayout>()};
  EXPECT_THROW(MemoryDescOf(tensor), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train::cpu
