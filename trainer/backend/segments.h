// Walks the segments of an optimizer's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/backend/backend.h"

namespace lockstep::train {

// Calls body(begin, end, decays) for the part of each segment that lies in [begin, end), in order.
template <typename Body>
void ForEachSegment(const OptimizerMemory& memory, std::int64_t begin, std::int64_t end,
                    const Body& body) {
  if (memory.segments.empty()) return body(begin, end, true);
  auto segment = std::ranges::upper_bound(memory.segments, begin, {}, &OptimizerSegment::end);
  for (; begin < end; ++segment) {
    const std::int64_t last = std::min(end, segment->end);
    body(begin, last, segment->decays);
    begin = last;
  }
}

// The segments of `memory`, which has at least one if it has values.
std::vector<OptimizerSegment> SegmentsOf(const OptimizerMemory& memory);
// Divides each segment into pieces of at most `most` values, in order.
std::vector<OptimizerPiece> PiecesOf(const std::vector<OptimizerSegment>& segments,
                                     std::int64_t most);

// The part [begin, end) of `memory`, with the same scratch.
OptimizerMemory PartOf(const OptimizerMemory& memory, std::int64_t begin, std::int64_t end);

// Throws CheckFailure unless `memory` has `slots` slots, and segments as OptimizerMemory says.
void CheckOptimizerMemory(const char* optimizer, const OptimizerMemory& memory, int slots);

}  // namespace lockstep::train
