# SPDX-License-Identifier: Apache-2.0
# Builds the consumers with the sources of Codetta as a subfolder. That compiles the library again, which takes minutes: to the
# end in the full suites and for every fourth commit, by its hash; otherwise up to the consumer's own object file and the plan
# of the link. All consumers are built in one folder after each other: a compiler cache knows a file that is compiled by its
# path, so that it answers from the second one on.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(to_the_end OFF)
if(FULL OR commit MATCHES "^[048c]")
  set(to_the_end ON)
endif()
message(STATUS "slice of ${commit}: the library is built to the end: ${to_the_end}")
foreach(consumer IN LISTS consumers)
  cmake_path(GET consumer FILENAME name)
  set(build ${WORK}/subfolder)
  file(REMOVE_RECURSE ${build})
  run(${CMAKE_COMMAND} -S ${SOURCE}/${consumer} -B ${build} ${configure_arguments} -DCODETTA_SOURCE=${SOURCE}
      -DCODETTA_WERROR=${WERROR} -DCODETTA_UNITY=${UNITY})
  if(to_the_end)
    run(${CMAKE_COMMAND} --build ${build} --target ${name})
    run(${build}/${name})
    message(STATUS "${name}: ${run_output}")
  else()
    run(${CMAKE_COMMAND} --build ${build} --target CMakeFiles/${name}.dir/${name}.cpp.o)
    run(${CMAKE_COMMAND} --build ${build} --target ${name} -- -n)
    if(NOT run_output MATCHES "libcodetta")
      message(FATAL_ERROR "building ${name} does not build libcodetta:\n${run_output}")
    endif()
  endif()
endforeach()
