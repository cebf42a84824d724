// LOCKSTEP_ALSO_ON_GPU marks functions that GPUs run too, with the same results bit for bit.
#pragma once

#ifdef __CUDACC__
#define LOCKSTEP_ALSO_ON_GPU __host__ __device__
#else
#define LOCKSTEP_ALSO_ON_GPU
#endif
