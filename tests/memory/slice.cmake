# SPDX-License-Identifier: Apache-2.0
# Random memory problems of the slice that the current commit picks; another commit, another slice.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
execute_process(COMMAND ${RUNNER} --slice ${commit} --count 200 RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the slice of ${commit} failed (${status}): memory_plans --slice ${commit} --count 200")
endif()
