# Cross-compiles for 64-bit ARM with Debian's compiler, against the libraries that `tools/setup aarch64`
# unpacks. CTest runs the programs under QEMU.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

# try_compile() configures a project of its own, which is told of nothing else.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES LOCKSTEP_DEPS_DIR)
set(LOCKSTEP_DEPS_DIR "$ENV{HOME}/.cache/lockstep" CACHE PATH "Where tools/setup puts what Debian has not")
set(CMAKE_SYSROOT ${LOCKSTEP_DEPS_DIR}/aarch64-sysroot)
if(NOT EXISTS ${CMAKE_SYSROOT}/.packages)
  message(FATAL_ERROR "The arm64 libraries are not in ${CMAKE_SYSROOT}: run tools/setup aarch64")
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})

# gRPC's configuration asks pkg-config.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)

# protoc and grpc_cpp_plugin run here, what is linked runs there.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
