# lockstep_library, lockstep_program, lockstep_test: one way to declare each, sources named one by one.
include(GoogleTest)

# lockstep_library(NAME SRCS a.cc … [DEPS lib …]): a static library; headers are included from the root.
# Its sources may be compiled together (LOCKSTEP_UNITY), so what is in their anonymous namespaces has
# names of its own.
function(lockstep_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE lockstep_warnings)
endfunction()

# lockstep_program(NAME SRCS main.cc … [DEPS lib …]): a binary in build/<preset>/bin.
function(lockstep_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF) # fuzz programs mix libraries' sources
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lockstep_warnings)
  # One component each: tools/images installs them one by one, without the build's library paths.
  install(TARGETS ${name} RUNTIME DESTINATION bin COMPONENT ${name})
endfunction()

# lockstep_test(NAME SRCS a_test.cc … [DEPS lib …] [TIMEOUT seconds] [WHOLE]): one binary a folder. Its sources are
# compiled together as a library's are: half of the time to compile a test goes to the headers that all of them include.
# WHOLE: ctest runs it as one, since its tests share what is dear to start.
function(lockstep_test name)
  cmake_parse_arguments(ARG "WHOLE" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # What is tested is optimised as it is shipped; optimising the tests costs more than it returns.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # The sanitizers, too, are for what is tested. With them, tests are not optimised, and compiled without UBSan, which
  # would double the time that it takes.
  if(NOT LOCKSTEP_SANITIZER STREQUAL "")
    target_compile_options(${name} PRIVATE -O0 -fno-sanitize=undefined)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock_main lockstep_warnings)
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    lockstep_limit_tests(${ARG_TIMEOUT} ${name})
  else()
    lockstep_time_limit(limit ${ARG_TIMEOUT})
    lockstep_time_limit(discovery 10)
    lockstep_time_percent(percent)
    # A parameter without operator<< prints as its bytes, which hold addresses.
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT ${discovery}
      NO_PRETTY_VALUES
      PROPERTIES TIMEOUT ${limit} ENVIRONMENT LOCKSTEP_TIME_PERCENT=${percent})
  endif()
endfunction()

# lockstep_unittest(NAME SECONDS MODULES m_test … [PYTHON program…] [ENVIRONMENT A=B …]): modules of Python's
# unittest in the current folder. ctest says so if every test of them is skipped.
function(lockstep_unittest name seconds)
  cmake_parse_arguments(ARG "" "" "MODULES;PYTHON;ENVIRONMENT" ${ARGN})
  if(NOT ARG_PYTHON)
    set(ARG_PYTHON ${PYTHON3})
  endif()
  add_test(NAME ${name}
    COMMAND ${ARG_PYTHON} ${PROJECT_SOURCE_DIR}/tests/support/run_unittest ${ARG_MODULES}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77
    ENVIRONMENT "LOCKSTEP_BIN=${CMAKE_BINARY_DIR}/bin;PYTHONDONTWRITEBYTECODE=1;${ARG_ENVIRONMENT}")
  lockstep_limit_tests(${seconds} ${name})
endfunction()

# lockstep_test_each_isa(NAME [FILTER gtest_filter] [SHARDS n]): runs the test program once more as a
# processor without AVX-512, and one without AVX, would, in n parts with a time limit each. On one that has less itself, it runs with what there is.
# The program also gets a test that its kernels are those of the set. Only a build with oneDNN can be
# held back so: without it there is nothing to repeat. ThreadSanitizer's build does not repeat them
# either: threads share their work in the same way at every set, and its tests are slow.
function(lockstep_test_each_isa name)
  if(NOT LOCKSTEP_WITH_ONEDNN OR LOCKSTEP_SANITIZER STREQUAL "thread")
    return()
  endif()
  cmake_parse_arguments(ARG "" "FILTER;SHARDS" "" ${ARGN})
  if(NOT ARG_FILTER)
    set(ARG_FILTER *)
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/instruction_set_test.cc)
  foreach(isa AVX2 SSE41)
    foreach(shard RANGE ${last})
      set(test ${name}_${isa}.${shard})
      add_test(NAME ${test} COMMAND ${name} --gtest_filter=${ARG_FILTER}:InstructionSetTest.*)
      set_tests_properties(${test} PROPERTIES ENVIRONMENT
        "ONEDNN_MAX_CPU_ISA=${isa};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
      lockstep_limit_tests(240 ${test})
    endforeach()
  endforeach()
endfunction()

# lockstep_proto(NAME PROTOS a.proto … [SERVICES]): generated C++, included as "api/proto/a.pb.h"; with
# SERVICES also gRPC stubs, "api/proto/a.grpc.pb.h".
function(lockstep_proto name)
  cmake_parse_arguments(ARG "SERVICES" "" "PROTOS" ${ARGN})
  file(RELATIVE_PATH dir ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(options --cpp_out=${PROJECT_BINARY_DIR}/generated)
  set(endings .pb)
  if(ARG_SERVICES)
    list(APPEND options --grpc_out=${PROJECT_BINARY_DIR}/generated
         --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN})
    list(APPEND endings .grpc.pb)
  endif()
  set(sources)
  foreach(proto ${ARG_PROTOS})
    get_filename_component(stem ${proto} NAME_WE)
    list(TRANSFORM endings PREPEND ${PROJECT_BINARY_DIR}/generated/${dir}/${stem}
         OUTPUT_VARIABLE bases)
    list(TRANSFORM bases APPEND .cc OUTPUT_VARIABLE generated)
    list(TRANSFORM bases APPEND .h OUTPUT_VARIABLE headers)
    add_custom_command(
      OUTPUT ${generated} ${headers}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/generated
      COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} ${options}
        ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      DEPENDS ${proto} VERBATIM)
    list(APPEND sources ${generated})
  endforeach()
  add_library(${name} STATIC ${sources})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF) # protoc repeats names of its own
  target_include_directories(${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf $<$<BOOL:${ARG_SERVICES}>:gRPC::grpc++>)
endfunction()
