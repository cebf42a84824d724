# Time limits of tests grow with the machine: what ends in time on the one where a limit was chosen
# must end in time on one that is three times slower.
find_program(PYTHON3 python3 REQUIRED)
if(NOT DEFINED LOCKSTEP_TIME_PERCENT)
  execute_process(COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/yardstick
    OUTPUT_VARIABLE measured OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(LOCKSTEP_TIME_PERCENT ${measured} CACHE STRING
    "Tests get this many percent of their time limits: tools/yardstick's figure, measured once")
endif()

# lockstep_time_limit(VARIABLE SECONDS): the limit on this machine, with this build's sanitizer.
function(lockstep_time_limit variable seconds)
  set(slower 1)
  if(LOCKSTEP_SANITIZER STREQUAL "address")
    set(slower 3)
  elseif(LOCKSTEP_SANITIZER STREQUAL "thread")
    set(slower 10)
  endif()
  math(EXPR limit "${seconds} * ${slower} * ${LOCKSTEP_TIME_PERCENT} / 100")
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()

# lockstep_limit_tests(SECONDS TEST…): their time limit on this machine; they learn the percentage from
# the environment variable LOCKSTEP_TIME_PERCENT, for limits of their own.
function(lockstep_limit_tests seconds)
  lockstep_time_limit(limit ${seconds})
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit})
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT
    LOCKSTEP_TIME_PERCENT=${LOCKSTEP_TIME_PERCENT})
endfunction()
