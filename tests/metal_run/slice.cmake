# SPDX-License-Identifier: Apache-2.0
# Random epilogues and everyday ones in random shapes, of the seed that the current commit gives.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=7 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit 1)
endif()
math(EXPR seed "0x${commit}")
execute_process(COMMAND ${RUNNER} --seed ${seed} --random ${COUNT} --shapes 1 RESULT_VARIABLE status)
if(status EQUAL 77)
  message("SKIPPED: there is no clang; tools/bootstrap test installs one")
elseif(NOT status EQUAL 0)
  message(FATAL_ERROR "Metal kernels of seed ${seed} failed (${status}); the lines above run single ones again")
endif()
