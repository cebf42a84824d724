#include "trainer/backend/cpu/portable/patches.h"

#include <algorithm>

namespace lockstep::train::cpu {
namespace {

// The outputs [first, last) along an axis for which tap `tap` of the window lies inside the image.
struct Range {
  std::int64_t first, last;
};
Range InsideAt(const WindowAxis& axis, std::int64_t tap) {
  const auto ceiling = [&axis](std::int64_t distance) {
    return distance <= 0 ? 0 : (distance + axis.stride - 1) / axis.stride;
  };
  const std::int64_t first = std::min(ceiling(axis.pad_begin - tap), axis.out);
  return {first, std::clamp(ceiling(axis.in + axis.pad_begin - tap), first, axis.out)};
}

// Calls body(pixel, at, inside) for each tap and each output row of the band. The matrix row begins
// at float `at`; its columns [inside.first, inside.last) come from the image at `pixel`, a stride
// apart. `pixel` is null if the whole row lies outside the image.
template <typename Float, typename Body>
void ForRows(const Patches& p, Float* image, std::int64_t begin, std::int64_t end, Body body) {
  std::int64_t at = 0;
  for (std::int64_t c = 0; c < p.channels; ++c) {
    Float* plane = image + c * p.rows.in * p.columns.in;
    for (std::int64_t r = 0; r < p.rows.size; ++r) {
      for (std::int64_t s = 0; s < p.columns.size; ++s) {
        const Range inside = InsideAt(p.columns, s);
        for (std::int64_t out = begin; out < end; ++out, at += p.columns.out) {
          const std::int64_t h = out * p.rows.stride - p.rows.pad_begin + r;
          const bool outside = h < 0 || h >= p.rows.in || inside.first == inside.last;
          Float* pixel = outside ? nullptr
                                 : plane + h * p.columns.in + inside.first * p.columns.stride -
                                       p.columns.pad_begin + s;
          body(pixel, at, inside);
        }
      }
    }
  }
}

}  // namespace

std::int64_t Patches::BandRows(std::int64_t floats) const {
  return std::clamp<std::int64_t>(floats / (taps() * columns.out), 1, rows.out);
}

void Patches::Gather(const float* image, std::int64_t begin, std::int64_t end,
                     float* matrix) const {
  const std::int64_t width = columns.out, stride = columns.stride;
  ForRows(*this, image, begin, end, [&](const float* pixel, std::int64_t at, const Range& inside) {
    float* row = matrix + at;
    if (pixel == nullptr) {
      std::fill_n(row, width, 0.0f);
      return;
    }
    std::fill_n(row, inside.first, 0.0f);
    if (stride == 1) {
      std::copy_n(pixel, inside.last - inside.first, row + inside.first);
    } else {
      for (std::int64_t q = inside.first; q < inside.last; ++q, pixel += stride) {
        row[q] = *pixel;
      }
    }
    std::fill_n(row + inside.last, width - inside.last, 0.0f);
  });
}

void Patches::ScatterAdd(const float* matrix, std::int64_t begin, std::int64_t end,
                         float* image) const {
  const std::int64_t stride = columns.stride;
  ForRows(*this, image, begin, end, [&](float* pixel, std::int64_t at, const Range& inside) {
    if (pixel == nullptr) return;
    const float* row = matrix + at;
    for (std::int64_t q = inside.first; q < inside.last; ++q) {
      pixel[(q - inside.first) * stride] += row[q];
    }
  });
}

}  // namespace lockstep::train::cpu
