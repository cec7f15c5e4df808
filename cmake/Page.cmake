# SPDX-License-Identifier: BSD-2-Clause
# The page of admin.page (daemon/server/page) as bytes of the program: no file has to be found, read
# or installed where it runs. CRI_PAGE_SOURCE is the C file, which is made when CMake runs.
set(CRI_PAGE_SOURCE "${PROJECT_BINARY_DIR}/page_files.c")
set(page_arrays "")
set(page_rows "")
foreach(row "/|index.html|text/html" "/page.css|page.css|text/css" "/page.js|page.js|text/javascript"
  "/views.js|views.js|text/javascript")
  string(REPLACE "|" ";" row "${row}")
  list(GET row 0 path)
  list(GET row 1 name)
  list(GET row 2 type)
  set(file "${PROJECT_SOURCE_DIR}/daemon/server/page/${name}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER "${name}" array)
  string(APPEND page_arrays "static const unsigned char ${array}[] = {${bytes}};\n")
  string(APPEND page_rows
    "    {\"${path}\", \"${type}; charset=utf-8\", ${array}, sizeof(${array})},\n")
endforeach()
file(CONFIGURE OUTPUT "${CRI_PAGE_SOURCE}" @ONLY CONTENT
"/* SPDX-License-Identifier: BSD-2-Clause */
/* Made by cmake/Page.cmake from daemon/server/page. */
#include \"server/page.h\"

@page_arrays@
const struct page_file page_files[] = {
@page_rows@    {NULL, NULL, NULL, 0},
};
")
