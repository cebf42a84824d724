// The activations' names in `layers`, which are Keras'. Whatever must hold for every activation
// iterates over this table: parsing, the CRD's schema, the tests.
#pragma once

#include <array>
#include <string_view>

#include "trainer/backend/activation.h"

namespace lockstep::train {

struct NamedActivation {
  std::string_view name;
  Activation activation;
};
inline constexpr std::array kActivations = {
    NamedActivation{"relu", Activation::kRelu},
    NamedActivation{"gelu", Activation::kGelu},
    NamedActivation{"silu", Activation::kSilu},
    NamedActivation{"tanh", Activation::kTanh},
    NamedActivation{"leaky_relu", Activation::kLeakyRelu},
};

constexpr std::string_view ActivationName(Activation activation) {
  for (const NamedActivation& named : kActivations) {
    if (named.activation == activation) return named.name;
  }
  return "";
}

}  // namespace lockstep::train
