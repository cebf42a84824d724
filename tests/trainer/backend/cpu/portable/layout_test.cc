#include "trainer/backend/cpu/device/layout.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "trainer/backend/backend.h"

namespace lockstep::train::cpu {
namespace {

class ForeignLayout final : public Layout {
 public:
  std::int64_t Elements() const override { return 1; }
  std::string Fingerprint() const override { return "foreign"; }
};

TEST(PortableLayoutTest, ImagesAndMatricesAreRowMajor) {
  const ImageView image = ViewOf({.shape = {2, 3, 4, 5}});
  EXPECT_EQ(image.outer, 3);
  EXPECT_EQ(image.area(), 20);
  EXPECT_EQ(image.inner, 1);
  EXPECT_EQ(image.floats(), 120);
  EXPECT_EQ(ViewOf({.shape = {2, 7}}).row_floats(), 7);
  EXPECT_EQ(NameOf({.shape = {2, 3, 4, 5}}), "nchw");
  EXPECT_EQ(NameOf({.shape = {2, 7}}), "nc");
}

TEST(PortableLayoutTest, EveryOpPutsOutRowMajor) {
  const auto backend = MakeBackend({.name = "cpu", .threads = 1});
  const auto conv = backend->MakeOp(
      Conv2dSpec{.x = {.shape = {2, 16, 5, 5}}, .filters = 20, .kernel_h = 3, .kernel_w = 3});
  const auto pool = backend->MakeOp(Pool2dSpec{.x = conv->output()});
  const auto dense = backend->MakeOp(DenseSpec{.x = pool->output(), .units = 7});
  for (const Op* op : {conv.get(), pool.get(), dense.get()}) EXPECT_TRUE(op->output().dense());
}

TEST(PortableLayoutTest, AnotherLayoutIsRefused) {
  const TensorDesc tensor{.shape = {1, 1, 1, 1}, .layout = std::make_shared<ForeignLayout>()};
  EXPECT_THROW(ViewOf(tensor), CheckFailure);
  EXPECT_THROW(WithExtents(tensor, {1, 1, 1, 1}), CheckFailure);
  const auto backend = MakeBackend({.name = "cpu", .threads = 1});
  float value = 0;
  EXPECT_THROW(backend->ToDense(tensor, &value, &value), CheckFailure);
}

}  // namespace
}  // namespace lockstep::train::cpu
