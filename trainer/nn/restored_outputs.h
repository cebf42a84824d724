// Chooses which outputs of ops a model does not keep for its backward passes, but computes again
// (Chen et al., "Training deep nets with sublinear memory cost", 2016). Pure.
#pragma once

#include <vector>

#include "trainer/nn/compile.h"
#include "trainer/nn/model.h"

namespace lockstep::train {

// Returns, for each op, whether its output is restored (Op::Restore) before a backward pass, or
// another op's restoration, reads it. To restore one takes at most `depth` ops, one after the
// other, the first of which reads an output that is kept for a backward pass anyway, or the
// samples. The last op's output is always kept. Requires: depth >= 0, of which 0 restores nothing.
std::vector<bool> ChooseRestored(const std::vector<NamedOp>& ops, Recomputation recomputation,
                                 int depth);

// The depths to choose from, among them 0. No rule finds the best one: a deeper one keeps fewer
// outputs, but those on the way to a restored one are all in memory at once, and what they are
// restored from may have to be kept longer.
std::vector<int> RestoreDepths(Recomputation recomputation);

}  // namespace lockstep::train
