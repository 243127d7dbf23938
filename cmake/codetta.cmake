# SPDX-License-Identifier: Apache-2.0
# The functions that the CMakeLists.txt files of this tree are made of.
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
if(CODETTA_BUILD_TESTS)
  include(GoogleTest)
endif()

# Every target compiles with these; they are private, so nothing of them reaches a user of the library.
add_library(codetta_options INTERFACE)
target_compile_features(codetta_options INTERFACE cxx_std_20)
target_compile_options(codetta_options INTERFACE -Wall -Wextra -Wconversion
                                                 $<$<NOT:$<BOOL:$<TARGET_PROPERTY:CODETTA_SHADOWS>>>:-Wshadow>
                                                 $<$<BOOL:${CODETTA_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The SLP vectorizer of GCC 12 drops the rounding of (double)(float)x on neighbouring scalars.
  target_compile_options(codetta_options INTERFACE -fno-tree-slp-vectorize)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # std::string operations warn without cause: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
  target_compile_options(codetta_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # An optional that holds a variant warns without cause where it is inlined, and so does a reference to what base::kept() keeps.
  target_compile_options(codetta_options INTERFACE -Wno-maybe-uninitialized -Wno-dangling-reference)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # std::stable_sort of libstdc++ 12 calls what libstdc++ itself has marked deprecated.
  target_compile_options(codetta_options INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CODETTA_UNITY)
  # GCC collects garbage from 128 MiB on, which units of several files exceed many times: a tenth of their time (bench/NOTES.md).
  target_compile_options(codetta_options INTERFACE --param=ggc-min-heapsize=524288)
endif()
set(CODETTA_ROOT ${CMAKE_CURRENT_SOURCE_DIR})
set(CODETTA_INCLUDE_DIRS ${CODETTA_ROOT}/include ${CODETTA_ROOT}/src ${CODETTA_ROOT})

# Groups of about BATCH files, of one size: the files of APART in turn, one to each group, then the others in their order.
function(codetta_unity_groups target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BATCH" "ALONE;APART")
  get_target_property(rest ${target} SOURCES)
  list(REMOVE_ITEM rest ${arg_ALONE})
  list(LENGTH rest count)
  list(REMOVE_ITEM rest ${arg_APART})
  math(EXPR groups "(${count} + ${arg_BATCH} - 1) / ${arg_BATCH}")
  math(EXPR last "${groups} - 1")
  foreach(group RANGE ${last})
    math(EXPR room "(${count} * (${group} + 1)) / ${groups} - (${count} * ${group}) / ${groups}")
    set(members)
    set(turn 0)
    foreach(file IN LISTS arg_APART)
      math(EXPR its_group "${turn} % ${groups}")
      if(its_group EQUAL group)
        list(APPEND members ${file})
      endif()
      math(EXPR turn "${turn} + 1")
    endforeach()
    list(LENGTH members size)
    while(rest AND size LESS room)
      list(POP_FRONT rest more)
      list(APPEND members ${more})
      math(EXPR size "${size} + 1")
    endwhile()
    set_source_files_properties(${members} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# With CODETTA_UNITY several sources of a target are compiled as one. Those in ALONE are not: files that name something in
# an anonymous namespace as another file of theirs does, and objects that are picked by name (cmake/engine.cmake). Those in
# APART, of which neighbours name the same things, go to the groups in turn.
function(codetta_unity target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BATCH" "ALONE;APART")
  if(CODETTA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${arg_BATCH})
    if(arg_APART)
      codetta_unity_groups(${target} BATCH ${arg_BATCH} APART ${arg_APART} ALONE ${arg_ALONE})
    endif()
    set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # A class of a source that holds one of its anonymous namespace looks like one of a header there.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# Rooms without hot loops are built at a level that costs less to build: with GCC 12, -O1 takes a quarter less time than
# -O2 and two fifths less than -O3 (bench/NOTES.md).
function(codetta_quick_build target room)
  if(CODETTA_SANITIZE OR room MATCHES "^(device|runtime|types|oracle)$")
    return()
  endif()
  set(level -O2)
  if(room MATCHES "^(frontend|package|plan|toolchain|emit|driver|cli)$")
    set(level -O1)
  endif()
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
endfunction()

# codetta_room(<name> SOURCES <cpp>... DEPENDS <room>... [ALONE <cpp>...] [APART <cpp>...])
# A static, position independent library codetta_<name>; a room without sources is its headers only. ALONE, APART: codetta_unity.
function(codetta_room name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;ALONE;APART")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "codetta_room(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  list(TRANSFORM arg_DEPENDS PREPEND codetta_)
  set(target codetta_${name})
  if(NOT arg_SOURCES)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${CODETTA_INCLUDE_DIRS})
    target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
    return()
  endif()
  add_library(${target} STATIC ${arg_SOURCES})
  target_include_directories(${target} PUBLIC ${CODETTA_INCLUDE_DIRS})
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE codetta_options codetta_header_packages)
  # Contraction is a decision of device/ and of emitted code; everywhere else the text says what is computed.
  target_compile_options(${target} PRIVATE -ffp-contract=off)
  codetta_quick_build(${target} ${name})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  codetta_unity(${target} BATCH 22 ALONE ${arg_ALONE} APART ${arg_APART})
  set_property(GLOBAL APPEND PROPERTY CODETTA_ROOMS_WITH_CODE ${target})
endfunction()

# Most of what a test does is done by the library: its own code is built at the level that costs least. With GCC -Og takes
# a quarter less time than -O1, and about what -O0 takes, whose code is three times as large (bench/NOTES.md).
set(CODETTA_TEST_LEVEL -O1)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # Warnings about what may not be initialized are made for -O1 and above; here they come without cause.
  set(CODETTA_TEST_LEVEL -Og -Wno-maybe-uninitialized)
endif()

# Libraries that tests load have no headers precompiled, which are not position independent.
function(codetta_test_level target)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${CODETTA_TEST_LEVEL}>")
endfunction()

# With CODETTA_UNITY what most tests include is compiled once for all of them: 0.6 of the 2.5 seconds that one takes on
# average. Builds without it find a test that lacks an include.
function(codetta_common_test_headers target)
  if(NOT CODETTA_UNITY OR NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    return()
  endif()
  if(NOT TARGET codetta_test_headers)
    set(source ${PROJECT_BINARY_DIR}/test_headers.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "// Nothing but what is included everywhere.\n")
    add_library(codetta_test_headers OBJECT ${source})
    target_include_directories(codetta_test_headers PRIVATE ${CODETTA_INCLUDE_DIRS})
    target_link_libraries(codetta_test_headers PRIVATE GTest::gtest codetta_options codetta_header_packages)
    target_compile_options(codetta_test_headers PRIVATE -ffp-contract=off "$<$<CONFIG:Release>:${CODETTA_TEST_LEVEL}>")
    target_precompile_headers(codetta_test_headers PRIVATE
      <algorithm> <atomic> <cstdint> <cstring> <filesystem> <fstream> <functional> <map> <memory> <optional> <random> <set> <span>
      <sstream> <string> <string_view> <thread> <variant> <vector> <fmt/format.h> <gtest/gtest.h>)
  endif()
  target_precompile_headers(${target} REUSE_FROM codetta_test_headers)
  # What the headers were compiled with, for programs without GoogleTest, too.
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # As -Wrestrict above; from a precompiled header GCC doesn't know that the line is a system header's.
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endfunction()

# What every piece of test code is compiled with. Files of a program are compiled as one, as those of rooms are, so that
# locals of one may hide names of another: no warning about that, with CODETTA_UNITY or without.
function(codetta_test_code target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;LINKS;ALONE")
  list(TRANSFORM arg_DEPENDS PREPEND codetta_)
  list(TRANSFORM arg_DEPENDS REPLACE "^codetta_codetta$" "codetta::codetta")
  target_include_directories(${target} PRIVATE ${CODETTA_INCLUDE_DIRS} ${CODETTA_ROOT}/tests)
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} ${arg_LINKS} codetta_options codetta_header_packages)
  target_compile_options(${target} PRIVATE -ffp-contract=off "$<$<CONFIG:Release>:${CODETTA_TEST_LEVEL}>")
  target_compile_definitions(${target} PRIVATE CODETTA_SOURCE_DIR="${CODETTA_ROOT}")
  codetta_common_test_headers(${target})
  codetta_unity(${target} BATCH 16 ALONE ${arg_ALONE})
  set_target_properties(${target} PROPERTIES CODETTA_SHADOWS ON)
endfunction()

# codetta_test_objects(<name> SOURCES <cpp>... DEPENDS <room>... [ALONE <cpp>...])
# What several test programs are made of, compiled once; they name it among their LINKS.
function(codetta_test_objects name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;ALONE")
  add_library(${name} OBJECT ${arg_SOURCES})
  codetta_test_code(${name} DEPENDS ${arg_DEPENDS} ALONE ${arg_ALONE})
endfunction()

# What a program of tests makes errors of is written down: codetta_code_recorder (tests/CMakeLists.txt).
function(codetta_record_codes target)
  if(NOT CMAKE_SYSTEM_NAME STREQUAL Linux OR NOT TARGET codetta_code_recorder)
    return()
  endif()
  target_link_libraries(${target} PRIVATE codetta_code_recorder)
  target_link_options(${target} PRIVATE
    LINKER:--wrap=_ZN7codetta4diag12ErrorBuilderC1ENS0_4CodeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE)
endfunction()

# codetta_test_program(<name> SOURCES <cpp>... DEPENDS <room>... [LINKS <target>...] [ALONE <cpp>...])
# A program of tests that has a main() of its own.
function(codetta_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS;LINKS;ALONE")
  add_executable(${name} ${arg_SOURCES})
  codetta_test_code(${name} DEPENDS ${arg_DEPENDS} LINKS ${arg_LINKS} ${CMAKE_DL_LIBS} ALONE ${arg_ALONE})
  codetta_record_codes(${name})
endfunction()

# codetta_test(<name> SOURCES <cpp>... DEPENDS <room>... [LINKS <target>...] [TIMEOUT <s>] [FULL] [PER_CASE] [ALONE <cpp>...] [LABELS <label>...])
# One GoogleTest program. Its CTest labels are the folders under tests/ (unit/ir: "unit" and "ir") and LABELS. CTest runs the
# program as one test, or with PER_CASE every case as its own. FULL: runs only when CODETTA_TEST_FULL is on, label "full".
# DEPENDS codetta links the library as users see it. Tests see CODETTA_TEST_FULL (0 or 1) and CODETTA_SOURCE_DIR.
function(codetta_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "FULL;PER_CASE" "TIMEOUT" "SOURCES;DEPENDS;LINKS;ALONE;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "codetta_test(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  codetta_test_code(${name} DEPENDS ${arg_DEPENDS} LINKS ${arg_LINKS} GTest::gtest_main ${CMAKE_DL_LIBS} ALONE ${arg_ALONE})
  codetta_record_codes(${name})
  target_compile_definitions(${name} PRIVATE CODETTA_TEST_FULL=$<BOOL:${CODETTA_TEST_FULL}>)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CODETTA_ROOT}/tests OUTPUT_VARIABLE labels)
  string(REPLACE "/" ";" labels "${labels}")
  list(APPEND labels ${arg_LABELS})
  if(arg_FULL)
    list(APPEND labels full)
    if(NOT CODETTA_TEST_FULL)
      return()
    endif()
  endif()
  if(arg_PER_CASE)
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120)
    # It hands a list on as separate words, of which a property takes the first.
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake @ONLY CONTENT
         "set_tests_properties(\${@name@_TESTS} PROPERTIES LABELS \"@labels@\" TIMEOUT @arg_TIMEOUT@)\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  else()
    add_test(NAME ${name} COMMAND ${name})
    # tools/run_tests counts the single cases from this report.
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT}
                                            ENVIRONMENT "GTEST_OUTPUT=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml")
  endif()
endfunction()

# codetta_script_test(<name> <command>...): a test that is a script; exit status 77 means skipped. CODETTA_TEST_FULL of its
# environment is ON or OFF.
function(codetta_script_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CODETTA_ROOT})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${CODETTA_ROOT}/tests OUTPUT_VARIABLE labels)
  string(REPLACE "/" ";" labels "${labels}")
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 300 SKIP_RETURN_CODE 77 ENVIRONMENT CODETTA_TEST_FULL=${CODETTA_TEST_FULL})
endfunction()

# codetta_aarch64_test(<name> SOURCES <cpp>... [SHARED <test> <cpp>...] [OPTIONS <option>...] [DEPENDS <file>...] [EMITTED <folder> <name>...])
# SHARED: sources that another test of the folder has compiled. EMITTED: <name>.cpp of the folder, made when the tests are
# built, each with the flags in <name>.rsp and its entry points called after it.
# A program with a main() of its own (there is no GoogleTest for AArch64 on the build machine), cross-compiled and run by
# qemu-user; exit status 77 means skipped. Where compiler or emulator are missing, the test is listed as disabled.
function(codetta_aarch64_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;SHARED;OPTIONS;DEPENDS;EMITTED")
  find_program(CODETTA_AARCH64_CXX aarch64-linux-gnu-g++ DOC "Cross compiler for the NEON tests")
  find_program(CODETTA_AARCH64_RUN NAMES qemu-aarch64 qemu-aarch64-static DOC "Emulator for the NEON tests")
  set(program ${CMAKE_CURRENT_BINARY_DIR}/${name})
  codetta_script_test(${name} ${CODETTA_AARCH64_RUN} ${program})
  set_property(TEST ${name} APPEND PROPERTY LABELS aarch64)
  if(NOT CODETTA_AARCH64_CXX OR NOT CODETTA_AARCH64_RUN)
    set_tests_properties(${name} PROPERTIES DISABLED ON)
    return()
  endif()
  list(TRANSFORM CODETTA_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE includes)
  set(objects)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE absolute)
    string(MAKE_C_IDENTIFIER ${source} object)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${object}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir
      COMMAND ${CODETTA_AARCH64_CXX} -std=c++20 -O2 -Wall -Wextra -ffp-contract=off ${arg_OPTIONS} ${includes} -MD -MF
              ${object}.d -c ${absolute} -o ${object}
      DEPENDS ${absolute} ${arg_DEPENDS}
      DEPFILE ${object}.d
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  list(POP_FRONT arg_SHARED other)
  foreach(source IN LISTS arg_SHARED)
    string(MAKE_C_IDENTIFIER ${source} object)
    list(APPEND objects ${CMAKE_CURRENT_BINARY_DIR}/${other}.dir/${object}.o)
  endforeach()
  list(POP_FRONT arg_EMITTED folder)
  foreach(epilogue IN LISTS arg_EMITTED)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.dir/${epilogue}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CODETTA_AARCH64_CXX} @${folder}/${epilogue}.rsp -Dcodetta_epilogue=codetta_epilogue_${epilogue}
              -Dcodetta_entry_digest=codetta_entry_digest_${epilogue} -c ${folder}/${epilogue}.cpp -o ${object}
      DEPENDS ${folder}/${epilogue}.cpp ${folder}/${epilogue}.rsp
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_custom_command(OUTPUT ${program} COMMAND ${CODETTA_AARCH64_CXX} -static ${objects} -o ${program} -pthread
                     DEPENDS ${objects} VERBATIM)
  add_custom_target(build_${name} ALL DEPENDS ${program})
endfunction()

# codetta_embed(<out.cpp> SYMBOL <name> ROOT <dir> FILES <file>...)
# Generates <out.cpp> in the build tree: a table of device::EmbeddedFile (device/embedded.hpp) behind
# `std::span<const EmbeddedFile> codetta::device::<name>()`. Virtual paths are relative to ROOT.
function(codetta_embed out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SYMBOL;ROOT" "FILES")
  set(absolute)
  foreach(file IN LISTS arg_FILES)
    cmake_path(ABSOLUTE_PATH file NORMALIZE)
    list(APPEND absolute ${file})
  endforeach()
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${arg_SYMBOL} -DROOT=${arg_ROOT} "-DFILES=${absolute}" -P
            ${CODETTA_ROOT}/cmake/embed.cmake
    DEPENDS ${absolute} ${CODETTA_ROOT}/cmake/embed.cmake
    COMMENT "Embedding device sources into ${out}"
    VERBATIM)
endfunction()
