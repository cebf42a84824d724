# The kernels for GPUs, which nvcc compiles where LOCKSTEP_CUDA asks for it. Nothing else needs a CUDA toolkit.
option(LOCKSTEP_CUDA "Compile the kernels for GPUs into the trainer" OFF)

# The kinds of GPUs that get machine code: A100 and what follows, H100, B200. The driver compiles PTX for later ones.
set(LOCKSTEP_NVCC_FLAGS
  -gencode arch=compute_80,code=sm_80
  -gencode arch=compute_90,code=sm_90
  -gencode arch=compute_100,code=[sm_100,compute_100]
  -std=c++20
  # What is constexpr in the standard library, std::max say, may be called.
  --expt-relaxed-constexpr
  # As g++ for other processors than x86-64: replicas on all of them compute the same bits.
  -fmad=false
  # Small, and the names of kernels can be read.
  -no-compress
  -Werror all-warnings)

if(NOT LOCKSTEP_CUDA)
  return()
endif()

# lockstep_find_cuda(VARIABLE WHAT [OPTION…]): a folder that tools/cuda-from-wheels has found.
function(lockstep_find_cuda variable what)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env LOCKSTEP_DEPS_DIR=${LOCKSTEP_DEPS_DIR}
      ${PROJECT_SOURCE_DIR}/tools/cuda-from-wheels --find ${ARGN}
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON, and ${what} was not found: run tools/setup cuda")
  endif()
  message(STATUS "Found ${what}: ${found}")
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

lockstep_find_cuda(LOCKSTEP_CUDA_TOOLKIT "a CUDA toolkit of 12.8 or later")
if(LOCKSTEP_BUILD_TESTS)
  lockstep_find_cuda(LOCKSTEP_CUDA_LIBRARIES "a folder of cuDNN, cuBLAS and NCCL, for the tests" --libraries)
endif()

# lockstep_embed_kernels(TARGET KERNELS.cu EMBEDDING.cc): compiles the kernels, for every kind of GPU, to an
# image beside the target, and adds the source that embeds the file LOCKSTEP_FATBIN_FILE to the target. The
# target's property LOCKSTEP_FATBIN is the image.
function(lockstep_embed_kernels target kernels source)
  set(nvcc ${LOCKSTEP_CUDA_TOOLKIT}/bin/nvcc)
  get_filename_component(stem ${kernels} NAME_WE)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/${stem}.fatbin)
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${nvcc} -fatbin ${LOCKSTEP_NVCC_FLAGS} -I${PROJECT_SOURCE_DIR} -ccbin ${CMAKE_CXX_COMPILER}
      -MD -MF ${fatbin}.d -MT ${fatbin} -o ${fatbin} ${CMAKE_CURRENT_SOURCE_DIR}/${kernels}
    DEPENDS ${kernels} ${nvcc} DEPFILE ${fatbin}.d COMMENT "Compiling ${kernels} for GPUs" VERBATIM)
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES
    OBJECT_DEPENDS ${fatbin} COMPILE_DEFINITIONS "LOCKSTEP_FATBIN_FILE=\"${fatbin}\"" SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES LOCKSTEP_FATBIN ${fatbin})
endfunction()
