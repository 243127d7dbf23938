# SPDX-License-Identifier: Apache-2.0
# cmake -DPAGES=docs/errors -DOUT=error_pages.cpp -P embed_pages.cmake
file(GLOB pages "${PAGES}/E[0-9][0-9][0-9][0-9].md")
list(SORT pages)
set(text "// SPDX-License-Identifier: Apache-2.0\n#include \"cli/error_pages.hpp\"\n\nnamespace codetta::cli {\n\nconst ErrorPage error_pages[] = {\n")
set(count 0)
foreach(page IN LISTS pages)
  get_filename_component(code "${page}" NAME_WE)
  file(READ "${page}" content)
  string(APPEND text "    {\"${code}\", R\"codetta_page(" "${content}" ")codetta_page\"},\n")
  math(EXPR count "${count} + 1")
endforeach()
string(APPEND text "};\nconst size_t error_page_count = ${count};\n\n}  // namespace codetta::cli\n")
file(WRITE "${OUT}" "${text}")
