# Time limits of tests grow with the machine: what ends in time on the one where a limit was chosen
# must end in time on one that is three times slower.
find_program(PYTHON3 python3 REQUIRED)
if(NOT DEFINED LOCKSTEP_TIME_PERCENT)
  execute_process(COMMAND ${PYTHON3} ${PROJECT_SOURCE_DIR}/tools/yardstick
    OUTPUT_VARIABLE measured OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(LOCKSTEP_TIME_PERCENT ${measured} CACHE STRING
    "Tests get this many percent of their time limits: tools/yardstick's figure, measured once")
endif()

# lockstep_time_percent(VARIABLE): this machine's percentage, multiplied for this build's sanitizer.
function(lockstep_time_percent variable)
  set(slower 1)
  if(LOCKSTEP_SANITIZER STREQUAL "address")
    set(slower 3)
  elseif(LOCKSTEP_SANITIZER STREQUAL "thread")
    set(slower 10)
  endif()
  math(EXPR percent "${LOCKSTEP_TIME_PERCENT} * ${slower}")
  set(${variable} ${percent} PARENT_SCOPE)
endfunction()

# lockstep_time_limit(VARIABLE SECONDS): the limit on this machine, with this build's sanitizer.
function(lockstep_time_limit variable seconds)
  lockstep_time_percent(percent)
  math(EXPR limit "${seconds} * ${percent} / 100")
  set(${variable} ${limit} PARENT_SCOPE)
endfunction()

# lockstep_limit_tests(SECONDS TEST…): their time limit on this machine; they learn the percentage, the
# sanitizer's part included, from the environment variable LOCKSTEP_TIME_PERCENT, for limits of their own.
function(lockstep_limit_tests seconds)
  lockstep_time_limit(limit ${seconds})
  lockstep_time_percent(percent)
  set_tests_properties(${ARGN} PROPERTIES TIMEOUT ${limit})
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT LOCKSTEP_TIME_PERCENT=${percent})
endfunction()
