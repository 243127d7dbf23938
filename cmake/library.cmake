# SPDX-License-Identifier: Apache-2.0
# libcodetta: the objects of all rooms, one symbol filter, install and export rules.
get_property(rooms GLOBAL PROPERTY CODETTA_ROOMS_WITH_CODE)
list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
add_library(codetta ${objects})
add_library(codetta::codetta ALIAS codetta)
set_target_properties(codetta PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
                                         SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(codetta PUBLIC cxx_std_20)
target_link_libraries(codetta PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

# Everything but the public classes and functions stays inside, inline library code of fmt and JSON included.
get_target_property(codetta_type codetta TYPE)
if(codetta_type STREQUAL SHARED_LIBRARY AND NOT APPLE)
  target_link_options(codetta PRIVATE LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/codetta.map LINKER:--no-undefined
                                      LINKER:--build-id=sha1)
  set_property(TARGET codetta APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/codetta.map)
endif()

file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/codetta/*.h*)
target_sources(codetta PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${public_headers})

if(NOT CODETTA_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)
set(codetta_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/codetta)
install(
  TARGETS codetta
  EXPORT codetta-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(EXPORT codetta-targets NAMESPACE codetta:: DESTINATION ${codetta_cmake_dir} COMPONENT development)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/codetta-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/codetta-config.cmake ${PROJECT_BINARY_DIR}/codetta-config-version.cmake
        DESTINATION ${codetta_cmake_dir} COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
