# SPDX-License-Identifier: Apache-2.0
# Installs into one prefix, moves the tree to another, and builds and runs the consumers against it with find_package.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
set(first ${WORK}/first)
set(moved "${WORK}/moved here")
file(REMOVE_RECURSE ${first} ${moved})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${first})
file(RENAME ${first} ${moved})

# Nothing in the installed tree may remember where it was built or first installed.
file(GLOB_RECURSE texts ${moved}/*.cmake ${moved}/*.hpp)
foreach(text IN LISTS texts)
  file(READ "${text}" content)
  foreach(folder IN ITEMS ${first} ${BUILD} ${SOURCE})
    string(FIND "${content}" "${folder}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} mentions ${folder}")
    endif()
  endforeach()
endforeach()

foreach(consumer IN LISTS consumers)
  cmake_path(GET consumer FILENAME name)
  set(build ${WORK}/installed_${name})
  file(REMOVE_RECURSE ${build})
  run(${CMAKE_COMMAND} -S ${SOURCE}/${consumer} -B ${build} ${configure_arguments} "-DCMAKE_PREFIX_PATH=${moved}")
  run(${CMAKE_COMMAND} --build ${build})
  run(${build}/${name})
  message(STATUS "${name}: ${run_output}")
endforeach()

# The installed command finds its library in the moved tree.
if(EXISTS "${moved}/bin/codetta")
  run("${moved}/bin/codetta" --version)
  # And the engine that it links into libraries; an instrumented one cannot be linked.
  if(NOT CXX_FLAGS MATCHES "-fsanitize")
    run("${moved}/bin/codetta" build ${SOURCE}/examples/digits/classifier.py -o ${WORK}/libinstalled.so --cache-dir ${WORK}/cache)
  endif()
endif()
