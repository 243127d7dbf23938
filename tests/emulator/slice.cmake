# SPDX-License-Identifier: Apache-2.0
# Random epilogues and problems of the slice that the current commit picks, on the one of ARCHS that it picks, too.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(number 0)
if(NOT commit)
  set(commit no-git)
else()
  string(SUBSTRING ${commit} 0 7 digits)
  list(LENGTH ARCHS archs)
  math(EXPR number "0x${digits} % ${archs}")
endif()
list(GET ARCHS ${number} ARCH)
message("slice of ${commit}: ${ARCH} of ${ARCHS}")
execute_process(COMMAND ${RUNNER} --emulate ${ARCH} --slice ${commit}${ARCH} --count ${COUNT} --seconds ${SECONDS} --of ${OF} --threads ${THREADS} --gtest_filter=CudaRandom.Simt:${RANDOM}:CudaMatrix.EveryOperationTypeAndForm:CudaMatrix.WholeRangesOfIntegers
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "kernels of ${ARCH} failed on the emulator: ${status}")
endif()
