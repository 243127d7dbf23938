# SPDX-License-Identifier: Apache-2.0
# Random epilogues of the slice that the current commit picks; another commit, another slice: 120 of which every third is
# compiled, then 480 that are interpreted, then 120 of which every fifth size is 0. About 3 s, 3 s and 1 s on two cores; a
# slower machine stops after 30 s, but not before a third of them.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
foreach(part IN ITEMS "120;--at-least;40" "480;--at-least;160;--first;1000;--tape"
             "120;--at-least;40;--first;5000;--tape;--empty")
  execute_process(COMMAND ${RUNNER} --slice ${commit} --count ${part} --jobs 2 --seconds 30 RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the differential slice of ${commit} failed (${status}); the lines above run single cases")
  endif()
endforeach()
