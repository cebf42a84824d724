// What LARS and LAMB measure of a tensor. Without functions, for the kernels of all processors.
#pragma once

namespace lockstep::train {

// Sums of squares: of a tensor's values, and of its gradient (LARS) or update (LAMB).
struct TrustSquares {
  double values = 0, update = 0;
};

}  // namespace lockstep::train
