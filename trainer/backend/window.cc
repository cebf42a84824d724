#include "trainer/backend/window.h"

#include "api/base/check.h"

namespace lockstep::train {
namespace {

void CheckImage(const Shape& x, const char* op) {
  LOCKSTEP_CHECK(x.rank() == 4, "{}: x has shape {}, expected N,C,H,W", op, x.ToString());
}

}  // namespace

Windows WindowsOf(const Conv2dSpec& spec) {
  const Shape& x = spec.x.shape;
  CheckImage(x, "conv2d");
  const Windows placed{PlaceWindow(x[2], spec.kernel_h, spec.stride_h, spec.padding),
                       PlaceWindow(x[3], spec.kernel_w, spec.stride_w, spec.padding)};
  LOCKSTEP_CHECK(placed.rows.out > 0 && placed.columns.out > 0,
                 "conv2d: a {}x{} kernel does not fit x of {}", spec.kernel_h, spec.kernel_w,
                 x.ToString());
  return placed;
}

Windows WindowsOf(const Pool2dSpec& spec) {
  const Shape& x = spec.x.shape;
  CheckImage(x, "pool2d");
  const Windows placed{PlaceWindow(x[2], spec.window_h, spec.stride_h, spec.padding),
                       PlaceWindow(x[3], spec.window_w, spec.stride_w, spec.padding)};
  LOCKSTEP_CHECK(placed.rows.out > 0 && placed.columns.out > 0,
                 "pool2d: a {}x{} window does not fit x of {}", spec.window_h, spec.window_w,
                 x.ToString());
  return placed;
}

}  // namespace lockstep::train
