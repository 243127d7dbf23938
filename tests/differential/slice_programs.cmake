# SPDX-License-Identifier: Apache-2.0
# Random programs of the slice that the current commit picks; another commit, another slice: 12 in one library, 5 to 15 s on
# two cores.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
execute_process(COMMAND ${RUNNER} --slice ${commit} --count 12 --batch 12 --at-least 12 --jobs 2 --seconds 60 RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the slice of programs of ${commit} failed (${status}); the lines above run single programs")
endif()
