# What makes a memory error in one of our programs hard to exploit; tests/hardening_test.py reads it back
# from the programs. The sanitizers find more, and do not go with it.
if(NOT LOCKSTEP_SANITIZER STREQUAL "")
  return()
endif()

# Position-independent programs, whose addresses differ in every process.
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)

add_compile_options(-fstack-protector-strong)
# Checks need the optimiser, so not in `dev`. Some compilers define a lower level themselves.
add_compile_options($<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
# Addresses of library functions are resolved at the start and read-only from then on.
add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
