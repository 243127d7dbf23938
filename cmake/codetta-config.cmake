# SPDX-License-Identifier: Apache-2.0
# find_package(codetta) gives the target codetta::codetta. A static library needs the thread library of the system.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/codetta-targets.cmake)
