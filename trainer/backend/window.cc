#include "trainer/backend/window.h"

#include "base/check.h"

namespace lockstep::train {
namespace {

struct Slide {
  const char *op, *window;  // "conv2d", "kernel"
  std::int64_t height, width, stride_h, stride_w;
  Padding padding;
  Edges zeros;
};

bool AreBelow(const Edges& edges, std::int64_t height, std::int64_t width) {
  return edges.top < height && edges.bottom < height && edges.left < width && edges.right < width;
}

Windows Place(const Shape& x, const Slide& s) {
  LOCKSTEP_CHECK(x.rank() == 4, "{}: x has shape {}, expected N,C,H,W", s.op, x.ToString());
  LOCKSTEP_CHECK(
      s.zeros == Edges{} || (s.padding == Padding::kValid && AreBelow(s.zeros, s.height, s.width)),
      "{}: zeros at the edges, expected padding valid and less than the {}", s.op, s.window);
  const Windows placed{
      PlaceWindow(x[2], s.height, s.stride_h, s.padding, s.zeros.top, s.zeros.bottom),
      PlaceWindow(x[3], s.width, s.stride_w, s.padding, s.zeros.left, s.zeros.right)};
  LOCKSTEP_CHECK(placed.rows.out > 0 && placed.columns.out > 0,
                 "{}: a {}x{} {} does not fit x of {}", s.op, s.height, s.width, s.window,
                 x.ToString());
  return placed;
}

}  // namespace

Windows WindowsOf(const Conv2dSpec& spec) {
  return Place(spec.x.shape, {"conv2d", "kernel", spec.kernel_h, spec.kernel_w, spec.stride_h,
                              spec.stride_w, spec.padding, spec.zeros});
}

Windows WindowsOf(const DepthwiseConv2dSpec& spec) {
  return Place(spec.x.shape, {"depthwise_conv2d", "kernel", spec.kernel_h, spec.kernel_w,
                              spec.stride_h, spec.stride_w, spec.padding, spec.zeros});
}

Windows WindowsOf(const Pool2dSpec& spec) {
  LOCKSTEP_CHECK(spec.zeros == Edges{} || (spec.kind == PoolKind::kMax && spec.relu),
                 "pool2d: zeros at the edges, expected a max pool with relu");
  return Place(spec.x.shape, {"pool2d", "window", spec.window_h, spec.window_w, spec.stride_h,
                              spec.stride_w, spec.padding, spec.zeros});
}

Shape ShapeOf(const DepthwiseConv2dSpec& spec) {
  LOCKSTEP_CHECK(spec.depth_multiplier >= 1,
                 "depthwise_conv2d: a depth multiplier of {}, expected at least 1",
                 spec.depth_multiplier);
  const auto [rows, columns] = WindowsOf(spec);
  return {spec.x.shape[0], spec.x.shape[1] * spec.depth_multiplier, rows.out, columns.out};
}

Shape ShapeOf(const ZeroPadding2dSpec& spec) {
  const Shape& x = spec.x.shape;
  const Edges& e = spec.edges;
  LOCKSTEP_CHECK(x.rank() == 4, "zero_padding2d: x has shape {}, expected N,C,H,W", x.ToString());
  LOCKSTEP_CHECK(e.top >= 0 && e.bottom >= 0 && e.left >= 0 && e.right >= 0,
                 "zero_padding2d: edges {}, {}, {}, {}, expected none below 0", e.top, e.bottom,
                 e.left, e.right);
  return {x[0], x[1], x[2] + e.top + e.bottom, x[3] + e.left + e.right};
}

}  // namespace lockstep::train
