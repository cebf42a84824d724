// Compares our declarations of NVIDIA's functions with NVIDIA's own. They need not be the same
// types, since ours know no header of NVIDIA's, but a caller must not be able to tell the
// difference.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace lockstep::train::cuda {

// Whether ours is the name of NVIDIA's struct or enumeration. Specialized for each.
template <typename Ours, typename Theirs>
inline constexpr bool kIsSameNamed = std::is_same_v<Ours, Theirs>;

template <typename Ours, typename Theirs>
struct SameAbi;

// Whether a value of type Ours is passed as one of type Theirs is. NVIDIA's enumerations are ints
// here.
template <typename Ours, typename Theirs>
constexpr bool IsSameType() {
  if constexpr (std::is_const_v<Ours> != std::is_const_v<Theirs>) {
    return false;
  } else if constexpr (std::is_const_v<Ours>) {
    return IsSameType<std::remove_const_t<Ours>, std::remove_const_t<Theirs>>();
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    return IsSameType<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
  } else if constexpr (std::is_integral_v<Ours> && std::is_integral_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
  } else if constexpr (std::is_integral_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
    return sizeof(Ours) == sizeof(Theirs) && kIsSameNamed<Ours, Theirs>;
  } else if constexpr (std::is_function_v<Ours> && std::is_function_v<Theirs>) {
    return SameAbi<Ours, Theirs>::kValue;
  } else {
    return kIsSameNamed<Ours, Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct SameAbi {
  static constexpr bool kValue = false;  // another number of arguments
};
template <typename Ours, typename... OurArguments, typename Theirs, typename... TheirArguments>
  requires(sizeof...(OurArguments) == sizeof...(TheirArguments))
struct SameAbi<Ours(OurArguments...), Theirs(TheirArguments...)> {
  static constexpr bool kValue =
      IsSameType<Ours, Theirs>() && (IsSameType<OurArguments, TheirArguments>() && ...);
};

// One row of a table of functions.
struct NamedFunction {
  std::string_view member, symbol;
  constexpr bool operator==(const NamedFunction&) const = default;
};

}  // namespace lockstep::train::cuda

// For tables of X(member, symbol, arguments), X(result, member, symbol, arguments) and
// X(member, function): their rows.
#define LOCKSTEP_TABLE_ROW(member, symbol, arguments) {#member, symbol},
#define LOCKSTEP_TABLE_ROW_OF_FOUR(result, member, symbol, arguments) {#member, symbol},
#define LOCKSTEP_FUNCTION_ROW(member, function) {#member, #function},
#define LOCKSTEP_TEXT(text) #text
#define LOCKSTEP_EXPANDED_TEXT(text) LOCKSTEP_TEXT(text)
// `function` of a header of NVIDIA's, which may be a macro for another function.
#define LOCKSTEP_SAME_FUNCTION(Table, member, function)                                            \
  static_assert(IsSameType<decltype(Table::member), decltype(&function)>(), #function);            \
  static_assert(std::string_view(#function) == std::string_view(LOCKSTEP_EXPANDED_TEXT(function)), \
                #function " is a macro");
#define LOCKSTEP_SAME_VALUE(ours, theirs)                                             \
  static_assert(static_cast<std::int64_t>(ours) == static_cast<std::int64_t>(theirs), \
                #ours " is not " #theirs)
