# SPDX-License-Identifier: BSD-2-Clause
# Run by cpack over the tree of each package: Debian's policy (12.1, 12.7) wants
# manual pages and changelogs compressed, in a way that gives the same bytes each time.
file(GLOB_RECURSE texts "${CPACK_TEMPORARY_DIRECTORY}/*")
list(FILTER texts INCLUDE REGEX "/share/(man/man[1-8]/[^/]*\\.[1-8]|doc/[^/]*/changelog)$")
foreach(text ${texts})
  execute_process(COMMAND gzip --best --no-name --force "${text}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
