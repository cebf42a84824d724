// Every kernel, as the host launches it (Device::Launch) and the .cu file of that subject defines
// it. Sizes are in elements; pointers are to device memory. Kernels without a remark run on
// GridFor(size). Tensors are void* of type `type`, a DType: see element.h.
#pragma once

#include <cstdint>

#include "trainer/backend/step_block.h"
#include "trainer/backend/trust_squares.h"

#ifdef __CUDACC__
#define LOCKSTEP_DECLARE_KERNEL extern "C" __global__ void
#else
#define LOCKSTEP_DECLARE_KERNEL extern "C" void
#endif

namespace lockstep::train::cuda::kernels {

// activation.cu: y = activation(x), and dx = dy * activation'(x)
LOCKSTEP_DECLARE_KERNEL Activate(const void* x, void* y, int type, std::int64_t size,
                                 int activation, float slope);
LOCKSTEP_DECLARE_KERNEL ActivateBackward(const void* x, const void* dy, void* dx, int type,
                                         std::int64_t size, int activation, float slope);

// bias.cu: matrices of `columns` columns; an image with channels last is one of N*H*W rows
// y[i] = act(y[i] + bias[i % columns]), where a null bias is 0, and act is relu or nothing
LOCKSTEP_DECLARE_KERNEL AddBias(void* y, int type, const float* bias, std::int64_t size,
                                std::int64_t columns, bool relu);

// Windows over images of in_h x in_w pixels; their axes are as in WindowAxis.
#define LOCKSTEP_WINDOW_PARAMETERS                                                          \
  std::int64_t in_h, std::int64_t in_w, std::int64_t size_h, std::int64_t size_w,           \
      std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h, std::int64_t pad_w, \
      std::int64_t out_h, std::int64_t out_w

// depthwise.cu: convolutions of images with channels last, with `multiplier` filters for each
// channel.
// `weight`: of x's type, a filter's next tap being channels * multiplier elements on.
LOCKSTEP_DECLARE_KERNEL Depthwise(const void* x, const void* weight, void* y, int type,
                                  std::int64_t images, std::int64_t channels,
                                  std::int64_t multiplier, LOCKSTEP_WINDOW_PARAMETERS);
LOCKSTEP_DECLARE_KERNEL DepthwiseData(const void* dy, const void* weight, void* dx, int type,
                                      std::int64_t images, std::int64_t channels,
                                      std::int64_t multiplier, LOCKSTEP_WINDOW_PARAMETERS);
// The sums over a part of the pixels: blocks_x for each tap of each `columns` filters, blocks_y for
// each part. sums[part,tap,filter]
LOCKSTEP_DECLARE_KERNEL SumDepthwiseWeights(const void* x, const void* dy, int type, double* sums,
                                            std::int64_t images, std::int64_t channels,
                                            std::int64_t multiplier, int columns,
                                            LOCKSTEP_WINDOW_PARAMETERS);
// dweight[filter,tap] = the sums over the parts
LOCKSTEP_DECLARE_KERNEL AddDepthwiseWeights(const double* sums, std::int64_t parts,
                                            std::int64_t filters, std::int64_t taps,
                                            float* dweight);

// dropout.cu: y = x * mask, as in DropoutSpec, for the rows of a dense tensor and of an image with
// its channels last.
LOCKSTEP_DECLARE_KERNEL DropOfRows(const void* x, void* y, int type, std::int64_t rows,
                                   std::int64_t row, const StepContext* step, std::uint64_t layer,
                                   float rate);
LOCKSTEP_DECLARE_KERNEL DropOfChannelsLast(const void* x, void* y, int type, std::int64_t rows,
                                           std::int64_t area, std::int64_t channels,
                                           const StepContext* step, std::uint64_t layer,
                                           float rate);

// elementwise.cu
// y = (x - center[c]) * factor[c], as in InputScaling; of one channel, the others' are unused
LOCKSTEP_DECLARE_KERNEL ConvertBytes(const std::uint8_t* x, float* y, std::int64_t size,
                                     std::int64_t channels, std::int64_t plane, float center_0,
                                     float center_1, float center_2, float factor_0, float factor_1,
                                     float factor_2);
// y[i] = factor * x[i]
LOCKSTEP_DECLARE_KERNEL ScaleFloats(const float* x, float* y, std::int64_t size, float factor);
// y[i] = x[i], of type `from` and `to`
LOCKSTEP_DECLARE_KERNEL Convert(const void* x, int from, void* y, int to, std::int64_t size);
// *found becomes 1 if a value is infinite or NaN
LOCKSTEP_DECLARE_KERNEL FindNotFinite(const float* values, std::int64_t size, int* found);

// image.cu
// Copies outer x rows lines of `line` elements; the strides say where each begins.
LOCKSTEP_DECLARE_KERNEL CopyLines(const void* from, void* to, int type, std::int64_t outer,
                                  std::int64_t rows, std::int64_t line, std::int64_t from_outer,
                                  std::int64_t from_row, std::int64_t to_outer,
                                  std::int64_t to_row);
// Between images of `channels` channels, whose layout `are_inner` says, and those of `padded`,
// with channels last. Pad sets the others to 0.
LOCKSTEP_DECLARE_KERNEL PadChannels(const void* x, int from, void* y, int to, std::int64_t images,
                                    std::int64_t area, std::int64_t channels, std::int64_t padded,
                                    bool are_inner);
LOCKSTEP_DECLARE_KERNEL CropChannels(const void* x, int from, void* y, int to, std::int64_t images,
                                     std::int64_t area, std::int64_t channels, std::int64_t padded,
                                     bool are_inner);
// y = act(a + b), where y may be one of them
LOCKSTEP_DECLARE_KERNEL AddPair(const void* a, const void* b, void* y, int type, std::int64_t size,
                                bool relu);
// first = second = dy, or 0 where y <= 0; all but dy may be null, and they may be dy.
LOCKSTEP_DECLARE_KERNEL PassGradients(const void* y, const void* dy, void* first, void* second,
                                      int type, std::int64_t size);

// losses.cu: LossOp::Run, in two launches
// One block for each row, whose sums go to rows[block].
LOCKSTEP_DECLARE_KERNEL SoftmaxCrossEntropyRows(const float* logits, float* dlogits,
                                                const std::int32_t* labels, const float* targets,
                                                const float* weights, const float* scale,
                                                LossTotals* rows, std::int64_t classes,
                                                double label_smoothing);
// On any number of blocks, whose sums go to sums[block]. `loss`: an ElementwiseLoss.
LOCKSTEP_DECLARE_KERNEL ElementwiseLosses(const float* logits, float* dlogits, const float* targets,
                                          const float* weights, const float* scale,
                                          LossTotals* sums, std::int64_t rows, std::int64_t outputs,
                                          int loss, double delta, double label_smoothing);
// *totals += the sum of `sums`, by one block.
LOCKSTEP_DECLARE_KERNEL AddLosses(const LossTotals* sums, std::int64_t size, LossTotals* totals);

// channel_sums.cu, batch_norm.cu, layer_norm.cu: sums and normalizations of `channels` channels.
// `are_inner`: they are neighbors in memory, else `area` pixels apart. Pixels are those of all
// images. The blocks of kernels that take `columns` are those of ChannelSums.

// Sums by channel of each part of the pixels, which a kernel with a block for each channel adds.
// The sums of x and x^2, over the valid rows.
LOCKSTEP_DECLARE_KERNEL SumChannels(const void* x, int type, double* sums, const StepContext* step,
                                    std::int64_t channels, std::int64_t area, bool are_inner,
                                    int columns);
// The sums of dy, as the second of each pair; the first is 0. The channels are inner. Unless y is
// null, dy = dy * relu'(y) first.
LOCKSTEP_DECLARE_KERNEL SumMasked(const void* y, void* dy, int type, double* sums,
                                  std::int64_t rows, std::int64_t channels, int columns);
// The sums of g * x_hat and g, over the valid rows, where g is dy * relu'(x_hat * gamma + beta) if
// there is a relu.
LOCKSTEP_DECLARE_KERNEL SumGradients(const void* x, const void* dy, int type, const float* gamma,
                                     const float* beta, const double* means,
                                     const double* inverse_deviations, bool relu, double* sums,
                                     const StepContext* step, std::int64_t channels,
                                     std::int64_t area, bool are_inner, int columns);
// The sums of dy * x_hat and dy, where each pixel has a mean and a deviation.
LOCKSTEP_DECLARE_KERNEL SumGradientsByPixel(const void* x, const void* dy, int type,
                                            const double* means, const double* inverse_deviations,
                                            double* sums, std::int64_t pixels,
                                            std::int64_t channels, std::int64_t area,
                                            bool are_inner, int columns);
// The gradients, and their means over the valid pixels: first all dgamma's, then all dbeta's. Null:
// not wanted.
LOCKSTEP_DECLARE_KERNEL WriteGradients(const double* sums, std::int64_t parts,
                                       std::int64_t channels, float* dgamma, float* dbeta,
                                       double* means, const StepContext* step, std::int64_t area);
// The valid rows' mean and 1 / sqrt(variance + epsilon); updates the moving ones. Without valid
// rows, as TakeMovingMoments.
LOCKSTEP_DECLARE_KERNEL MeasureChannels(const double* sums, std::int64_t parts,
                                        std::int64_t channels, const StepContext* step,
                                        std::int64_t area, float momentum, float epsilon,
                                        float* moving_means, float* moving_variances, double* means,
                                        double* inverse_deviations);
LOCKSTEP_DECLARE_KERNEL TakeMovingMoments(const float* moving_means, const float* moving_variances,
                                          std::int64_t channels, float epsilon, double* means,
                                          double* inverse_deviations);
// y = act(x_hat * gamma + beta) of the valid rows, where act is relu or nothing; 0 beyond.
LOCKSTEP_DECLARE_KERNEL NormalizeChannels(const void* x, void* y, int type, const float* gamma,
                                          const float* beta, const double* means,
                                          const double* inverse_deviations, bool relu,
                                          const StepContext* step, std::int64_t rows,
                                          std::int64_t channels, std::int64_t area, bool are_inner,
                                          int columns);
// dx of the valid rows; 0 beyond. `gradient_means`: of WriteGradients.
LOCKSTEP_DECLARE_KERNEL NormalizeChannelsBackward(
    const void* x, const void* dy, void* dx, int type, const float* gamma, const float* beta,
    const double* means, const double* inverse_deviations, const double* gradient_means, bool relu,
    const StepContext* step, std::int64_t rows, std::int64_t channels, std::int64_t area,
    bool are_inner, int columns);
// One block for each pixel. `gamma`, `beta`: null if there is none.
LOCKSTEP_DECLARE_KERNEL NormalizePixels(const void* x, void* y, int type, const float* gamma,
                                        const float* beta, double* means,
                                        double* inverse_deviations, std::int64_t channels,
                                        std::int64_t area, bool are_inner, float epsilon);
LOCKSTEP_DECLARE_KERNEL NormalizePixelsBackward(const void* x, const void* dy, void* dx, int type,
                                                const float* gamma, const double* means,
                                                const double* inverse_deviations,
                                                std::int64_t channels, std::int64_t area,
                                                bool are_inner);

// muon.cu: what Muon does with a matrix between its products; see MuonSpec. Nothing if the step
// does not apply. Updates m and writes u. A block for each kMuonPiece values, the sum of whose
// squares it writes.
inline constexpr std::int64_t kMuonPiece = 8192;
LOCKSTEP_DECLARE_KERNEL DirectByMuon(const float* gradients, float* m, float* u, std::int64_t size,
                                     const OptimizerStep* step, float momentum, bool nesterov,
                                     double* squares);
// x /= MuonDivisor(the sum of the squares), by the same blocks.
LOCKSTEP_DECLARE_KERNEL DivideByNorm(float* x, std::int64_t size, const OptimizerStep* step,
                                     const double* squares, std::int64_t pieces);
// y = a * x + b * y
LOCKSTEP_DECLARE_KERNEL Combine(float a, const float* x, float b, float* y, std::int64_t size,
                                const OptimizerStep* step);
LOCKSTEP_DECLARE_KERNEL MoveByMuon(float* values, const float* x, std::int64_t size,
                                   const OptimizerStep* step, float weight_decay, float rate_ratio);

// optimizers.cu: OptimizerOp::Step. `segments`: `count` of OptimizerSegment; without any, all
// values decay. Slots that the optimizer does not have are null.
LOCKSTEP_DECLARE_KERNEL UpdateBySgd(float* values, const float* gradients, float* velocities,
                                    std::int64_t size, const OptimizerSegment* segments,
                                    std::int64_t count, const OptimizerStep* step,
                                    float weight_decay, float momentum, bool nesterov);
LOCKSTEP_DECLARE_KERNEL UpdateByAdam(float* values, const float* gradients, float* m, float* v,
                                     std::int64_t size, const OptimizerSegment* segments,
                                     std::int64_t count, const OptimizerStep* step,
                                     float weight_decay, float beta1, float beta2, float epsilon,
                                     float rate_ratio);
LOCKSTEP_DECLARE_KERNEL UpdateByRmsprop(float* values, const float* gradients, float* squares,
                                        float* velocities, std::int64_t size,
                                        const OptimizerSegment* segments, std::int64_t count,
                                        const OptimizerStep* step, float weight_decay, float rho,
                                        float epsilon, float momentum);
LOCKSTEP_DECLARE_KERNEL UpdateByAdagrad(float* values, const float* gradients, float* sums,
                                        std::int64_t size, const OptimizerSegment* segments,
                                        std::int64_t count, const OptimizerStep* step,
                                        float weight_decay, float epsilon);

// trust_optimizers.cu: OptimizerOp::Step of LARS and LAMB, in three launches. All but
// ChooseTrusts run one block for each piece.
LOCKSTEP_DECLARE_KERNEL MeasureForLars(const float* values, const float* gradients,
                                       const OptimizerPiece* pieces, const OptimizerStep* step,
                                       TrustSquares* squares);
// Updates m and v, too.
LOCKSTEP_DECLARE_KERNEL MeasureForLamb(const float* values, const float* gradients, float* m,
                                       float* v, const OptimizerPiece* pieces,
                                       const OptimizerSegment* segments, const OptimizerStep* step,
                                       float weight_decay, float beta1, float beta2, float epsilon,
                                       TrustSquares* squares);
// One block for each segment, whose pieces are those from firsts[block] to firsts[block + 1].
LOCKSTEP_DECLARE_KERNEL ChooseTrusts(const std::int64_t* firsts, const OptimizerSegment* segments,
                                     const TrustSquares* squares, const OptimizerStep* step,
                                     double coefficient, double decay, float* trusts);
LOCKSTEP_DECLARE_KERNEL UpdateByLars(float* values, const float* gradients, float* velocities,
                                     const OptimizerPiece* pieces, const OptimizerSegment* segments,
                                     const float* trusts, const OptimizerStep* step,
                                     float weight_decay, float momentum, bool nesterov);
LOCKSTEP_DECLARE_KERNEL UpdateByLamb(float* values, const float* m, const float* v,
                                     const OptimizerPiece* pieces, const OptimizerSegment* segments,
                                     const float* trusts, const OptimizerStep* step,
                                     float weight_decay, float beta1, float beta2, float epsilon);

// pool2d.cu: on images of planes (layout.h)
// `chosen`: the number in its window of each output's first maximum; -1 if relu has made it 0
LOCKSTEP_DECLARE_KERNEL MaxPool(const void* x, void* y, int type, std::int32_t* chosen,
                                std::int64_t outer, std::int64_t inner, bool relu,
                                LOCKSTEP_WINDOW_PARAMETERS);
LOCKSTEP_DECLARE_KERNEL MaxPoolBackward(const void* dy, const std::int32_t* chosen, void* dx,
                                        int type, std::int64_t outer, std::int64_t inner,
                                        LOCKSTEP_WINDOW_PARAMETERS);
LOCKSTEP_DECLARE_KERNEL AveragePool(const void* x, void* y, int type, std::int64_t outer,
                                    std::int64_t inner, LOCKSTEP_WINDOW_PARAMETERS);
LOCKSTEP_DECLARE_KERNEL AveragePoolBackward(const void* dy, void* dx, int type, std::int64_t outer,
                                            std::int64_t inner, LOCKSTEP_WINDOW_PARAMETERS);
// The mean of each plane of `area` pixels: blocks_x for the outer index, blocks_y for each
// `columns` of the inner one.
LOCKSTEP_DECLARE_KERNEL GlobalAverage(const void* x, void* y, int type, std::int64_t area,
                                      std::int64_t inner, int columns);
LOCKSTEP_DECLARE_KERNEL GlobalAverageBackward(const void* dy, void* dx, int type, std::int64_t size,
                                              std::int64_t area, std::int64_t inner);

// step.cu; on one thread unless said
// *value *= *factor
LOCKSTEP_DECLARE_KERNEL MultiplyByFactor(float* value, const float* factor);
LOCKSTEP_DECLARE_KERNEL WriteStepTail(const LossTotals* totals, StepTail* tail);
// squares[b] = the sum of squares of block b of SquaredNorm in trainer/core. kNormLanes threads for
// each, in blocks of kNormGroups times as many. Without a sum, neither reads nor writes.
inline constexpr unsigned kNormLanes = 16, kNormGroups = 16;
inline constexpr std::int64_t kNormBlock = 4096;
LOCKSTEP_DECLARE_KERNEL SumSquares(const bool* is_summed, const float* values, std::int64_t size,
                                   double* squares);
// DecideUpdate of step_block.h, by one block of kDecidingThreads. `blocks`: of `squares`.
inline constexpr unsigned kDecidingThreads = 64;  // kNormParts of trainer/core
LOCKSTEP_DECLARE_KERNEL DecideStep(const UpdateSettings* settings, const bool* is_summed,
                                   const double* squares, std::int64_t blocks, const StepTail* tail,
                                   UpdateGate* gate, OptimizerStep* update, StepResult* result);
// states = update->applies ? summed : saved
LOCKSTEP_DECLARE_KERNEL ChooseStates(const OptimizerStep* update, const float* summed,
                                     const float* saved, float* states, std::int64_t size);

// patches.cu: patches[n,p,q,i] = the element of x that tap i of the window at p,q of image n sees,
// for the taps c,r,s in this order, or 0: past the edges, and for those from channels * taps to
// `padded`, which is at most kMostTaps. `are_inner`: x has its channels last.
inline constexpr std::int64_t kMostTaps = 256;
LOCKSTEP_DECLARE_KERNEL GatherPatches(const void* x, void* patches, int type, std::int64_t images,
                                      std::int64_t channels, std::int64_t padded, bool are_inner,
                                      LOCKSTEP_WINDOW_PARAMETERS);

// transpose.cu: y[m,c,r] = x[m,r,c]. A block of kTile x kTileRows threads for each tile of kTile x
// kTile elements of each matrix m, all in x direction.
inline constexpr unsigned kTile = 32, kTileRows = 8;
LOCKSTEP_DECLARE_KERNEL Transpose(const void* x, int from, void* y, int to, std::int64_t rows,
                                  std::int64_t columns);

}  // namespace lockstep::train::cuda::kernels
