# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts of this folder: run a command or fail with its output.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status STREQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(run_output "${output}" PARENT_SCOPE)
endfunction()

set(configure_arguments -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}"
                        -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
set(consumers tests/package/consumer examples/hello)

# The consumer compiles every public header without exceptions.
file(GLOB public_headers RELATIVE ${SOURCE}/include ${SOURCE}/include/codetta/*.hpp)
file(READ ${SOURCE}/tests/package/consumer/consumer.cpp consumer_text)
foreach(header IN LISTS public_headers)
  string(FIND "${consumer_text}" "#include <${header}>" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "tests/package/consumer/consumer.cpp does not include ${header}")
  endif()
endforeach()
