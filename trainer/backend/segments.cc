#include "trainer/backend/segments.h"

#include "base/check.h"

namespace lockstep::train {

std::vector<OptimizerSegment> SegmentsOf(const OptimizerMemory& memory) {
  if (!memory.segments.empty() || memory.size == 0) return memory.segments;
  return {{.begin = 0, .end = memory.size}};
}

std::vector<OptimizerPiece> PiecesOf(const std::vector<OptimizerSegment>& segments,
                                     std::int64_t most) {
  std::vector<OptimizerPiece> pieces;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    for (std::int64_t begin = segments[i].begin; begin < segments[i].end; begin += most) {
      pieces.push_back({.begin = begin,
                        .end = std::min(begin + most, segments[i].end),
                        .segment = static_cast<std::int64_t>(i)});
    }
  }
  return pieces;
}

OptimizerMemory PartOf(const OptimizerMemory& memory, std::int64_t begin, std::int64_t end) {
  OptimizerMemory part = memory;
  part.values += begin;
  part.gradients += begin;
  for (float*& slot : part.slots) slot += begin;
  part.size = end - begin;
  part.segments.clear();
  ForEachSegment(memory, begin, end, [&](std::int64_t first, std::int64_t last, bool decays) {
    part.segments.push_back({.begin = first - begin, .end = last - begin, .decays = decays});
  });
  return part;
}

void CheckOptimizerMemory(const char* optimizer, const OptimizerMemory& memory, int slots) {
  LOCKSTEP_CHECK(memory.slots.size() == static_cast<std::size_t>(slots),
                 "{}: found {} slots, expected {}", optimizer, memory.slots.size(), slots);
  LOCKSTEP_CHECK(memory.step != nullptr, "{}: found no step, expected one", optimizer);
  if (memory.segments.empty()) return;
  std::int64_t end = 0;
  for (const OptimizerSegment& segment : memory.segments) {
    LOCKSTEP_CHECK(segment.begin == end && segment.end > end,
                   "{}: found a segment [{}, {}), expected one that begins at {}", optimizer,
                   segment.begin, segment.end, end);
    end = segment.end;
  }
  LOCKSTEP_CHECK(end == memory.size, "{}: found segments up to {}, expected up to {}", optimizer,
                 end, memory.size);
}

}  // namespace lockstep::train
