// GCC's vector extension in the widths of registers. One lane is a plain float.
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
