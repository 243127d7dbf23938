# SPDX-License-Identifier: Apache-2.0
# Those cases of a program that the current commit picks, every fourth one, as another GPU than the one as which all of them run
# beside this; with FULL all.
cmake_minimum_required(VERSION 3.25)
set(shards 4)
set(shard 0)
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(FULL)
  set(shards 1)
elseif(commit)
  string(SUBSTRING ${commit} 0 7 digits)
  math(EXPR shard "0x${digits} % ${shards}")
endif()
message("slice of ${commit}: part ${shard}, of ${shards}")
execute_process(COMMAND ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=${shards} GTEST_SHARD_INDEX=${shard} ${RUNNER} --gtest_filter=${FILTER}
                RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "cases of ${FILTER} failed on the emulator: ${status}")
endif()
