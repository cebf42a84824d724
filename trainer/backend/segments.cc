#include "trainer/backend/segments.h"

#include "base/check.h"

namespace lockstep::train {

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
