#include "trainer/backend/cpu/kernels/local.h"

namespace lockstep::train::cpu::LOCKSTEP_ISA {

const Kernels kKernels = {
    .lanes = LOCKSTEP_LANES,
    .activate = Activate,
    .activate_backward = ActivateBackward,
    .mask_by_relu = MaskByRelu,
    .add = Add,
    .to_bfloat16 = CastToBFloat16,
    .from_bfloat16 = CastFromBFloat16,
    .to_float16 = CastToFloat16,
    .from_float16 = CastFromFloat16,
    .half_relu = HalfRelu,
    .half_mask_by_relu = HalfMaskByRelu,
    .scale_bytes = ScaleBytes,
    .max_pool = MaxPool<std::uint8_t>,
    .max_pool_backward = MaxPoolBackward<std::uint8_t>,
    .max_pool_wide = MaxPool<std::uint32_t>,
    .max_pool_wide_backward = MaxPoolBackward<std::uint32_t>,
    .average_pool = AveragePool,
    .average_pool_backward = AveragePoolBackward,
    .multiply = Multiply,
    .layer_norm = LayerNorm,
    .layer_norm_backward = LayerNormBackward,
    .few_channel_gradient = FewChannelGradient,
    .winograd = Winograd,
    .winograd_weight = WinogradTransformWeight,
    .winograd_gradient = WinogradGradient,
    .winograd_gradient_weight = WinogradGradientWeight,
    .adam = Adam,
    .sgd = Sgd,
    .rmsprop = Rmsprop,
    .adagrad = Adagrad,
    .lars_squares = LarsSquares,
    .lars = Lars,
    .lamb_moments = LambMoments,
    .lamb = Lamb,
};

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
