# SPDX-License-Identifier: Apache-2.0
# The golden CUDA kernels and those others that the current commit picks; another commit, other kernels.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
execute_process(COMMAND ${RUNNER} --slice ${commit} --count ${COUNT} --jobs 2 --nvrtc ${NVRTC} RESULT_VARIABLE status)
if(status EQUAL 77)
  message("SKIPPED: there is no NVRTC; tools/bootstrap test installs one")
elseif(NOT status EQUAL 0)
  message(FATAL_ERROR "the CUDA kernels of ${commit} failed (${status}); the lines above compile single ones")
endif()
