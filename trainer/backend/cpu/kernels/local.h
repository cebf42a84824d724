// The kernels of one instruction set, in its own namespace (LOCKSTEP_ISA: baseline, avx2 or avx512;
// LOCKSTEP_LANES: floats in a register; see CMakeLists.txt).
#pragma once

#include "trainer/backend/cpu/kernels/kernels.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {

void Activate(Activation activation, float slope, const float* x, float* y, std::int64_t size);
void ActivateBackward(Activation activation, float slope, const float* x, const float* dy,
                      float* dx, std::int64_t size);
void MaskByRelu(const float* y, float* dy, std::int64_t size);
void Add(const float* a, const float* b, float* y, std::int64_t size, bool relu);
void CastToBFloat16(const float* x, std::uint16_t* y, std::int64_t size);
void CastFromBFloat16(const std::uint16_t* x, float* y, std::int64_t size);
void CastToFloat16(const float* x, std::uint16_t* y, std::int64_t size);
void CastFromFloat16(const std::uint16_t* x, float* y, std::int64_t size);
void HalfRelu(std::uint16_t* y, std::int64_t size, std::uint16_t infinity);
void HalfMaskByRelu(const std::uint16_t* y, std::uint16_t* dy, std::int64_t size,
                    std::uint16_t infinity);
void ScaleBytes(const std::uint8_t* x, float* y, std::int64_t size, float scale);
void LayerNorm(const LayerNormShape& shape, const LayerNormPass& pass);
void LayerNormBackward(const LayerNormShape& shape, const LayerNormGradient& pass);
void Multiply(const Product& product, float* scratch);
void FewChannelGradient(const FewChannelShape& shape, const float* x, const float* dy, float* sum,
                        float* bias);
void Winograd(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
              const WinogradBlock& block, float* y, float* scratch);
void WinogradTransformWeight(const WinogradWeight& shape, std::int64_t first_vector,
                             std::int64_t last_vector, const float* weight, float* transformed);
void WinogradGradient(const WinogradShape& shape, const WinogradTiles& tiles, const float* x,
                      const float* dy, float* sums, float* scratch);
void WinogradGradientWeight(const WinogradShape& shape, const WinogradParts& parts,
                            std::int64_t first_channel, std::int64_t last_channel, float* weight);
void Adam(const AdamFactors& factors, const float* gradient, float* value, float* m, float* v,
          std::int64_t size);
void Sgd(const SgdFactors& factors, const float* gradient, float* value, float* velocity,
         std::int64_t size);
void Rmsprop(const RmspropFactors& factors, const float* gradient, float* value, float* square,
             float* velocity, std::int64_t size);
void Adagrad(const AdagradFactors& factors, const float* gradient, float* value, float* sum,
             std::int64_t size);
TrustSquares LarsSquares(const LarsFactors& factors, const float* gradient, const float* value,
                         std::int64_t size);
void Lars(const LarsFactors& factors, const float* gradient, float* value, float* velocity,
          std::int64_t size);
TrustSquares LambMoments(const LambFactors& factors, const float* gradient, const float* value,
                         float* m, float* v, std::int64_t size);
void Lamb(const LambFactors& factors, const float* m, const float* v, float* value,
          std::int64_t size);
void Depthwise(const WindowShape& shape, const float* x, const float* weight, const float* bias,
               float* y, RowRange rows);
void DepthwiseData(const WindowShape& shape, const float* dy, const float* weight, float* dx,
                   RowRange rows);
void DepthwiseWeight(const WindowShape& shape, const float* x, const float* dy, float* sums,
                     float* bias, RowRange rows);
void DepthwisePlane(const WindowShape& shape, const float* x, const float* weight, float bias,
                    float* y, std::int64_t y_step);
void DepthwisePlaneData(const WindowShape& shape, const float* dy, std::int64_t y_step,
                        const float* weight, float* dx);
void DepthwisePlaneWeight(const WindowShape& shape, const float* x, const float* dy,
                          std::int64_t y_step, float* sums, float* bias);
template <typename Index>
void MaxPool(const WindowShape& shape, const float* x, float* y, Index* chosen,
             std::int64_t planes);
template <typename Index>
void MaxPoolBackward(const WindowShape& shape, const float* dy, const Index* chosen, float* dx,
                     std::int64_t planes);
void AveragePool(const WindowShape& shape, const float* x, float* y, std::int64_t planes);
void AveragePoolBackward(const WindowShape& shape, const float* dy, float* dx, std::int64_t planes);

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
