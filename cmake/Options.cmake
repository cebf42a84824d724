# Language level, warnings and output folders of everything that is ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# A newer shared library of the system does not link our programs again.
set(CMAKE_LINK_DEPENDS_NO_SHARED ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# -O2, as distributions build; trainer/ asks for -O3, where loops are hot.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
# Reading headers is most of what compiling costs, so a library's sources are compiled several at a
# time. That hides an include that is missing, until lint looks at few sources one by one.
option(LOCKSTEP_UNITY "Compile the sources of a library several at a time" ON)
set(CMAKE_UNITY_BUILD ${LOCKSTEP_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A tenth of the time went into collecting garbage that would have fitted into memory.
  add_compile_options(--param=ggc-min-heapsize=600000)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # Paths below the base directory count relative to it, so that a second clone finds what the first compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} ${CCACHE_PROGRAM})
endif()

# g++ 12 is the judge of warnings. A newer one knows more of them, which must not stop a user's build, and
# takes variants of vectors for uninitialized when they are moved.
set(strict -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  set(strict -Wno-maybe-uninitialized)
endif()
add_library(lockstep_warnings INTERFACE)
target_compile_options(lockstep_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion ${strict})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports overlaps in std::string that cannot happen (GCC bug 105651), and the same
  # inlining makes it see out-of-bounds copies in optional and variant.
  target_compile_options(lockstep_warnings INTERFACE -Wno-restrict)
  # It fires on designated initializers that leave members at their defaults, which is their point.
  target_compile_options(lockstep_warnings INTERFACE -Wno-missing-field-initializers)
endif()

if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # g++ fuses a * b + c into one rounding where every processor of the architecture can; those of x86-64
  # cannot. Without it replicas on both compute the same bits outside of the kernels.
  add_compile_options(-ffp-contract=off)
endif()

if(LOCKSTEP_SANITIZER STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  # With it g++ 12 takes members of what std::regex moves for uninitialized (GCC bug 105616). The other
  # presets judge this warning.
  target_compile_options(lockstep_warnings INTERFACE -Wno-maybe-uninitialized)
elseif(LOCKSTEP_SANITIZER STREQUAL "thread")
  # It does not see fences; what relies on one is in tests/tsan.supp.
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -Wno-tsan)
  add_link_options(-fsanitize=thread)
  # At -O1 with it g++ 12 takes the value of an optional that is checked first for uninitialized. The
  # other presets judge this warning.
  target_compile_options(lockstep_warnings INTERFACE -Wno-maybe-uninitialized)
elseif(LOCKSTEP_SANITIZER STREQUAL "fuzz")
  # clang, for libFuzzer. g++ is the judge of warnings.
  add_compile_options(-O1 -gline-tables-only -fsanitize=fuzzer-no-link,address,undefined
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
  target_compile_options(lockstep_warnings INTERFACE -Wno-error -Wno-missing-field-initializers)
elseif(NOT LOCKSTEP_SANITIZER STREQUAL "")
  message(FATAL_ERROR "LOCKSTEP_SANITIZER is '${LOCKSTEP_SANITIZER}'; it must be address, thread, fuzz or empty")
endif()
