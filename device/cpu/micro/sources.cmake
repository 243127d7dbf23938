# SPDX-License-Identifier: Apache-2.0
# The micro-kernels, one file per instruction set with its flags. Optimized in every build type: without inlining they do not
# keep their accumulators in registers.
set(micro_sources cpu/micro/table.cpp cpu/micro/micro_generic.cpp)
if(NOT CODETTA_ISA_KERNELS)
  set_source_files_properties(cpu/micro/table.cpp PROPERTIES COMPILE_DEFINITIONS CODETTA_GENERIC_ONLY)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(avx512 -mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mtune=icelake-server
             -mprefer-vector-width=512)
  set(flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(flags_avx512 ${avx512})
  set(flags_avx512_vnni ${avx512} -mavx512vnni)
  set(flags_avx512_bf16 ${avx512} -mavx512vnni -mavx512bf16)
  set(flags_amx -mamx-tile -mamx-bf16 -mamx-int8)
  set(micro_isas avx2 avx512 avx512_vnni avx512_bf16 amx)
  list(APPEND micro_sources cpu/micro/micro_avx2.cpp cpu/micro/micro_avx512.cpp cpu/micro/micro_avx512_vnni.cpp
       cpu/micro/micro_avx512_bf16.cpp cpu/micro/micro_amx.cpp)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set(micro_isas neon)
  list(APPEND micro_sources cpu/micro/micro_neon.cpp)
endif()
# Of emitted libraries alone (cmake/engine.cmake).
set(micro_wanted cpu/micro/wanted.cpp PARENT_SCOPE)
# They throw nothing: tables to unwind them would be about a thirtieth of an emitted library.
set(micro_common -O2 -ftree-vectorize -ffp-contract=fast -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables
                 -ffunction-sections -fdata-sections)  # a library links the sets that it uses (sets.hpp)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND micro_common -Wno-maybe-uninitialized)  # its own intrinsics headers start from undefined vectors
endif()
set_source_files_properties(cpu/micro/micro_generic.cpp PROPERTIES COMPILE_OPTIONS "${micro_common}")
foreach(isa IN LISTS micro_isas)
  set_source_files_properties(cpu/micro/micro_${isa}.cpp PROPERTIES COMPILE_OPTIONS "${micro_common};${flags_${isa}}")
endforeach()
