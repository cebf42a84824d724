// Vector types of kLanes elements, made with GCC's vector extension. With one lane they are
// scalars.
#pragma once

#include <cstdint>

namespace lockstep::train::cpu::LOCKSTEP_ISA {

template <int kLanes>
struct Lanes {
  typedef float Float __attribute__((vector_size(4 * kLanes)));
  typedef std::int32_t Int __attribute__((vector_size(4 * kLanes)));
  template <typename Index>
  struct Packed {
    typedef Index Type __attribute__((vector_size(sizeof(Index) * kLanes)));
  };
  template <typename To, typename From>
  [[gnu::always_inline]] static To Convert(From from) {
    return __builtin_convertvector(from, To);
  }
};

#if LOCKSTEP_LANES == 8
// Takes the low byte of each of eight ints with one shuffle: for the generic conversion the
// compiler moves the bytes one by one.
template <>
template <>
[[gnu::always_inline]] inline Lanes<8>::Packed<std::uint8_t>::Type
Lanes<8>::Convert<Lanes<8>::Packed<std::uint8_t>::Type, Lanes<8>::Int>(Lanes<8>::Int from) {
  typedef std::uint8_t Bytes __attribute__((vector_size(32)));
  const auto bytes = reinterpret_cast<Bytes>(from);
  return __builtin_shufflevector(bytes, bytes, 0, 4, 8, 12, 16, 20, 24, 28);
}
#endif

template <>
struct Lanes<1> {
  using Float = float;
  using Int = std::int32_t;
  template <typename Index>
  struct Packed {
    using Type = Index;
  };
  template <typename To, typename From>
  [[gnu::always_inline]] static To Convert(From from) {
    return static_cast<To>(from);
  }
};

// Load and Store accept unaligned addresses.
template <typename Vector>
[[gnu::always_inline]] inline Vector Load(const void* from) {
  Vector vector;
  __builtin_memcpy(&vector, from, sizeof(Vector));
  return vector;
}
template <typename Vector>
[[gnu::always_inline]] inline void Store(void* to, Vector vector) {
  __builtin_memcpy(to, &vector, sizeof(Vector));
}

}  // namespace lockstep::train::cpu::LOCKSTEP_ISA
