# SPDX-License-Identifier: Apache-2.0
# Random epilogues and problems of the slice that the current commit picks, another one for each architecture.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT commit)
  set(commit no-git)
endif()
execute_process(COMMAND ${RUNNER} --emulate ${ARCH} --slice ${commit}${ARCH} --count ${COUNT} --seconds ${SECONDS} --of ${OF} --threads ${THREADS} --gtest_filter=CudaRandom.Simt:${RANDOM}:CudaMatrix.EveryOperationTypeAndForm:CudaMatrix.WholeRangesOfIntegers
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "kernels of ${ARCH} failed on the emulator: ${status}")
endif()
