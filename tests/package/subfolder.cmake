# SPDX-License-Identifier: Apache-2.0
# Builds the consumers with the sources of Codetta as a subfolder. That compiles the library again: to the end where a compiler
# cache is there (release builds, whose objects do not hold the folder of the build) or in the full suites; otherwise up to the
# consumer's own object file and the plan of the link. All consumers are built in one folder after each other: the cache
# knows a file that is compiled by its path, so that it answers from the second one on.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
foreach(consumer IN LISTS consumers)
  cmake_path(GET consumer FILENAME name)
  set(build ${WORK}/subfolder)
  file(REMOVE_RECURSE ${build})
  run(${CMAKE_COMMAND} -S ${SOURCE}/${consumer} -B ${build} ${configure_arguments} -DCODETTA_SOURCE=${SOURCE}
      -DCODETTA_WERROR=${WERROR} -DCODETTA_UNITY=${UNITY})
  if(FULL OR (LAUNCHER AND BUILD_TYPE STREQUAL "Release"))
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
