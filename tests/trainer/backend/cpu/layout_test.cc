#include "trainer/backend/cpu/device/layout.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "trainer/backend/backend.h"
#include "trainer/backend/cpu/device/memory_desc.h"

namespace lockstep::train::cpu {
namespace {

using dnnl::memory;

memory::desc DescOf(const memory::dims& dims, memory::format_tag tag) {
  return {dims, memory::data_type::f32, tag};
}

TEST(LayoutTest, RowMajorNeedsNoLayout) {
  const Shape shape{2, 3, 4, 5};
  EXPECT_TRUE(TensorOf(shape, DescOf(shape.dims(), memory::format_tag::nchw)).dense());
  EXPECT_FALSE(TensorOf(shape, DescOf(shape.dims(), memory::format_tag::nhwc)).dense());
}

TEST(LayoutTest, BytesCountThePaddingOfTheLastBlock) {
  const Shape shape{2, 20, 4, 5};
  const TensorDesc tensor = TensorOf(shape, DescOf(shape.dims(), memory::format_tag::nChw16c));
  EXPECT_EQ(tensor.bytes(), 2u * 32 * 4 * 5 * sizeof(float));
  const ImageView view = ViewOf(tensor);
  EXPECT_EQ(view.outer, 2);
  EXPECT_EQ(view.inner, 16);
  EXPECT_EQ(view.floats() * 4, static_cast<std::int64_t>(tensor.bytes()));
}

TEST(LayoutTest, FingerprintsTellOrdersApart) {
  const memory::dims dims = {2, 16, 4, 5};
  const DnnlLayout by16(DescOf(dims, memory::format_tag::nChw16c));
  const DnnlLayout by8(DescOf(dims, memory::format_tag::nChw8c));
  const DnnlLayout again(DescOf(dims, memory::format_tag::nChw16c));
  EXPECT_EQ(by16.Fingerprint(), again.Fingerprint());
  EXPECT_NE(by16.Fingerprint(), by8.Fingerprint());
}

TEST(LayoutTest, APoolKeepsTheOrderOfItsInput) {
  for (const auto tag : {memory::format_tag::nchw, memory::format_tag::nhwc,
                         memory::format_tag::nChw8c, memory::format_tag::nChw16c}) {
    const Shape from{2, 16, 8, 8}, to{2, 16, 4, 4};
    const TensorDesc pooled = WithExtents(TensorOf(from, DescOf(from.dims(), tag)), to);
    EXPECT_TRUE(MemoryDescOf(pooled) == DescOf(to.dims(), tag));
  }
}

// Replicas on different processors share these bytes: whatever an op prefers, they are row-major.
TEST(LayoutTest, ParametersAreDense) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 1});
  const auto conv = backend->MakeOp(
      Conv2dSpec{.x = {.shape = {2, 16, 5, 5}}, .filters = 20, .kernel_h = 3, .kernel_w = 3});
  const auto dense = backend->MakeOp(DenseSpec{.x = conv->output(), .units = 7});
  const auto norm = backend->MakeOp(BatchNormSpec{.x = conv->output()});
  for (const Op* op : {conv.get(), dense.get(), norm.get()}) {
    for (const ParameterDesc& parameter : op->Parameters()) {
      EXPECT_TRUE(parameter.desc.dense()) << parameter.name;
    }
    for (const ParameterDesc& state : op->States()) EXPECT_TRUE(state.desc.dense()) << state.name;
  }
}

TEST(LayoutTest, OrdersHaveTheNamesThatPeopleKnow) {
  using Tag = memory::format_tag;
  const Shape image{2, 32, 4, 5};
  const auto name = [&](Tag tag) { return NameOf(TensorOf(image, DescOf(image.dims(), tag))); };
  EXPECT_EQ(name(Tag::nchw), "nchw");
  EXPECT_EQ(name(Tag::nhwc), "nhwc");
  EXPECT_EQ(name(Tag::nChw8c), "nChw8c");
  EXPECT_EQ(name(Tag::nChw16c), "nChw16c");
  EXPECT_EQ(NameOf({.shape = {2, 32}}), "nc");
}

class ForeignLayout final : public Layout {
 public:
  std::int64_t Elements() const override { return 1; }
  std::string Fingerprint() const override { return "foreign"; }
};

TEST(LayoutTest, AnotherBackEndsLayoutIsRefused) {
  const TensorDesc tensor{.shape = {1, 1}, .layout = std::make_shared<ForeignLayout>()};
  EXPECT_THROW(MemoryDescOf(tensor), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train::cpu
