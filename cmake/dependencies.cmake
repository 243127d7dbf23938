# SPDX-License-Identifier: Apache-2.0
# Header packages: needed to build, private, never seen by users. fmt is compiled once, in src/base/fmt_impl.cpp.
find_package(Threads REQUIRED)

add_library(codetta_header_packages INTERFACE)
function(codetta_header_package variable header debian_package)
  find_path(${variable} ${header} DOC "Folder that holds ${header}")
  if(NOT ${variable})
    message(FATAL_ERROR "<${header}> was not found. Install ${debian_package}, or run tools/bootstrap, "
                        "or pass -D${variable}=<folder that holds it>.")
  endif()
  target_include_directories(codetta_header_packages SYSTEM INTERFACE ${${variable}})
endfunction()
codetta_header_package(CODETTA_FMT_DIR fmt/format-inl.h libfmt-dev)
codetta_header_package(CODETTA_JSON_DIR nlohmann/json.hpp nlohmann-json3-dev)
codetta_header_package(CODETTA_XXHASH_DIR xxhash.h libxxhash-dev)
