// Ops against the same ops on `reference`.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "trainer/backend/backend.h"
#include "trainer/check/check_report.h"
#include "trainer/check/op_cases.h"

namespace lockstep::train {

// Runs each case in float32, bfloat16 and float16: a training step and an evaluation, of which the
// outputs, the states and all gradients are compared, and the training step a second time, which
// must give the same bits. An image comes once dense, in float32, and once, in each type, as the
// back end's convolutions put it out. All of it starts as NaN. The oracle works on `threads` of the
// pool. One group for each op and type.
std::vector<CheckGroup> CheckOps(Backend& backend, const std::vector<OpCase>& cases,
                                 ThreadPool& pool, int threads);

// The same of the ops that multiply, in float32, of a back end that may round their factors to
// TF32. The factors are such numbers already, so only the order of the sums may differ. One group
// for each op, of the type "TF32".
std::vector<CheckGroup> CheckTF32Ops(Backend& backend, const std::vector<OpCase>& cases,
                                     ThreadPool& pool, int threads);

}  // namespace lockstep::train
