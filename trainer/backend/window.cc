#include "trainer/backend/window.h"

#include "base/check.h"

namespace lockstep::train {
namespace {

struct Slide {
  const char *op, *window;  // "conv2d", "kernel"
  std::int64_t height, width, stride_h, stride_w;
  Padding padding;
};

Windows Place(const Shape& x, const Slide& s) {
  LOCKSTEP_CHECK(x.rank() == 4, "{}: x has shape {}, expected N,C,H,W", s.op, x.ToString());
  const Windows placed{PlaceWindow(x[2], s.height, s.stride_h, s.padding),
                       PlaceWindow(x[3], s.width, s.stride_w, s.padding)};
  LOCKSTEP_CHECK(placed.rows.out > 0 && placed.columns.out > 0,
                 "{}: a {}x{} {} does not fit x of {}", s.op, s.height, s.width, s.window,
                 x.ToString());
  return placed;
}

}  // namespace

Windows WindowsOf(const Conv2dSpec& spec) {
  return Place(spec.x.shape, {"conv2d", "kernel", spec.kernel_h, spec.kernel_w, spec.stride_h,
                              spec.stride_w, spec.padding});
}

Windows WindowsOf(const Pool2dSpec& spec) {
  return Place(spec.x.shape, {"pool2d", "window", spec.window_h, spec.window_w, spec.stride_h,
                              spec.stride_w, spec.padding});
}

}  // namespace lockstep::train
