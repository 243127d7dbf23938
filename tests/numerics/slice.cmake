# SPDX-License-Identifier: Apache-2.0
# The part of the compiled matrix that the current commit picks; another commit, another part. Units follow each other by
# kind (of tails with an epilogue and without, of operations in groups of five): divisors that share no factor with those
# periods take some of every kind.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
foreach(arguments IN ITEMS "--of;73" "--tails;--of;91" "--tails;--interpreted;--of;91")
  execute_process(COMMAND ${RUNNER} --slice ${commit} ${arguments} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "the slice of ${commit} failed (${status}): numerics --slice ${commit} ${arguments}")
  endif()
endforeach()
