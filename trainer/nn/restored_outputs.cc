#include "trainer/nn/restored_outputs.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace lockstep::train {
namespace {

// The place of an output that is neither kept nor restored.
constexpr int kGone = std::numeric_limits<int>::max();

// By op: whether a backward pass reads its output.
std::vector<bool> OutputsRead(const std::vector<NamedOp>& ops) {
  std::vector<bool> is_read(ops.size(), false);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!ops[i].NeedsBackward()) continue;
    const BackwardReads reads = ops[i].op->Reads();
    if (reads.y) is_read[i] = true;
    if (!reads.x) continue;
    for (const int input : ops[i].inputs) {
      if (input != kSamples) is_read[static_cast<std::size_t>(input)] = true;
    }
  }
  return is_read;
}

bool MayRestore(const NamedOp& op, Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::kNone:
      return false;
    case Recomputation::kSelective:
      return op.facts.forward_flops == 0;
    case Recomputation::kFull:
      return true;
  }
  return false;
}

}  // namespace

std::vector<bool> ChooseRestored(const std::vector<NamedOp>& ops, Recomputation recomputation,
                                 int depth) {
  const std::vector<bool> is_read = OutputsRead(ops);
  std::vector<bool> restored(ops.size(), false);
  std::vector<int> depths(ops.size(), 0);  // how many ops restore it; 0: it is kept
  for (std::size_t i = 0; i < ops.size(); ++i) {
    int below = 0;
    for (const int input : ops[i].inputs) {
      if (input != kSamples) below = std::max(below, depths[static_cast<std::size_t>(input)]);
    }
    restored[i] = i + 1 < ops.size() && below < depth && MayRestore(ops[i], recomputation);
    depths[i] = restored[i] ? below + 1 : is_read[i] ? 0 : kGone;
  }
  return restored;
}

std::vector<int> RestoreDepths(Recomputation recomputation) {
  switch (recomputation) {
    case Recomputation::kNone:
      return {0};
    case Recomputation::kSelective:
      return {0, 1, 2, 3, 4, 6, 8};
    case Recomputation::kFull:
      return {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
  }
  return {0};
}

}  // namespace lockstep::train
