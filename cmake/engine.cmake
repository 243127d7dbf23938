# SPDX-License-Identifier: Apache-2.0
# What emitted libraries link instead of libcodetta: the CPU engine as an archive of the very objects that libcodetta is
# made of, and for each instruction-set level an archive that holds its kernel table. A library links one of these tables,
# and with it the kernels of that level alone; or, with codetta_sets in front, those that a list of its own names.
set(engine_dir $<TARGET_FILE_DIR:codetta>/codetta)
set(engine_sources copy engine fused gemm layout map pack packed reduce thread_pool tile tiny values workspace)  # of runtime/cpu
list(JOIN engine_sources | engine_runtime)
add_library(codetta_engine STATIC
  "$<FILTER:$<TARGET_OBJECTS:codetta_runtime>,INCLUDE,/cpu/(${engine_runtime})[.]cpp>"
  "$<FILTER:$<TARGET_OBJECTS:codetta_types>,INCLUDE,/(cpu_support|overlap)[.]cpp>"
  "$<FILTER:$<TARGET_OBJECTS:codetta_device>,INCLUDE,/micro_[a-z0-9_]+[.]cpp>")
set_target_properties(codetta_engine PROPERTIES LINKER_LANGUAGE CXX ARCHIVE_OUTPUT_DIRECTORY ${engine_dir})

set(engine_levels generic)
if(CODETTA_ISA_KERNELS AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  list(APPEND engine_levels avx2 avx512 avx512_vnni avx512_bf16 amx)
elseif(CODETTA_ISA_KERNELS AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  list(APPEND engine_levels neon)
endif()
set(engine_targets codetta_engine)
foreach(level IN LISTS engine_levels)
  add_library(codetta_table_${level} STATIC device/cpu/micro/table.cpp)
  target_compile_definitions(codetta_table_${level} PRIVATE CODETTA_ONLY_LEVEL=${level})
  target_include_directories(codetta_table_${level} PRIVATE ${CODETTA_INCLUDE_DIRS})
  target_link_libraries(codetta_table_${level} PRIVATE codetta_options)
  set_target_properties(codetta_table_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON ARCHIVE_OUTPUT_DIRECTORY ${engine_dir})
  list(APPEND engine_targets codetta_table_${level})
endforeach()
add_library(codetta_sets STATIC device/${micro_wanted})
target_include_directories(codetta_sets PRIVATE ${CODETTA_INCLUDE_DIRS})
target_link_libraries(codetta_sets PRIVATE codetta_options)
set_target_properties(codetta_sets PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                      VISIBILITY_INLINES_HIDDEN ON ARCHIVE_OUTPUT_DIRECTORY ${engine_dir})
list(APPEND engine_targets codetta_sets)
add_dependencies(codetta ${engine_targets})
set_target_properties(codetta_host PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${engine_dir})
if(CODETTA_INSTALL)
  install(TARGETS ${engine_targets} codetta_host ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/codetta COMPONENT runtime
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/codetta COMPONENT runtime)
endif()
