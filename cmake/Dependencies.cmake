# Every third-party package, found once. tools/setup installs them.

# Not beside the programs of the PATH: an active conda environment would give its own fmt or gRPC, which do not fit
# the system's other libraries. For packages elsewhere there is CMAKE_PREFIX_PATH.
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)

find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf CONFIG QUIET)
if(NOT Protobuf_FOUND)
  find_package(Protobuf REQUIRED)
endif()
find_package(gRPC REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(cpprestsdk REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

set(LOCKSTEP_DEPS_DIR "$ENV{HOME}/.cache/lockstep" CACHE PATH "Where tools/setup puts what Debian has not")

# oneDNN 3 or later: the system's, else the wheel that tools/setup unpacks, which is for x86-64. Without
# it the back end "cpu" multiplies with kernels of our own, on row-major images.
set(LOCKSTEP_ONEDNN AUTO CACHE STRING "Multiply with oneDNN: ON, OFF, or AUTO (ON on x86-64)")
set_property(CACHE LOCKSTEP_ONEDNN PROPERTY STRINGS AUTO ON OFF)
if(LOCKSTEP_ONEDNN STREQUAL "AUTO")
  string(COMPARE EQUAL "${CMAKE_SYSTEM_PROCESSOR}" x86_64 LOCKSTEP_WITH_ONEDNN)
else()
  set(LOCKSTEP_WITH_ONEDNN ${LOCKSTEP_ONEDNN})
endif()
if(LOCKSTEP_WITH_ONEDNN)
  find_package(dnnl 3 CONFIG QUIET)
endif()
if(LOCKSTEP_WITH_ONEDNN AND NOT dnnl_FOUND)
  find_path(ONEDNN_INCLUDE dnnl.hpp PATHS ${LOCKSTEP_DEPS_DIR}/onednn-2023.2.0/include NO_DEFAULT_PATH)
  find_library(ONEDNN_LIBRARY dnnl PATHS ${LOCKSTEP_DEPS_DIR}/onednn-2023.2.0/lib NO_DEFAULT_PATH)
  if(NOT ONEDNN_INCLUDE OR NOT ONEDNN_LIBRARY)
    message(FATAL_ERROR "oneDNN 3 was found neither on the system nor under ${LOCKSTEP_DEPS_DIR}: run "
      "tools/setup, or build without it: -DLOCKSTEP_ONEDNN=OFF")
  endif()
  add_library(DNNL::dnnl SHARED IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE})
endif()

find_path(GLOO_INCLUDE gloo/context.h REQUIRED)
find_library(GLOO_LIBRARY gloo REQUIRED)
add_library(gloo_imported INTERFACE)
target_include_directories(gloo_imported SYSTEM INTERFACE ${GLOO_INCLUDE})
target_link_libraries(gloo_imported INTERFACE ${GLOO_LIBRARY} Threads::Threads)

if(LOCKSTEP_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

unset(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH)
