# SPDX-License-Identifier: BSD-2-Clause
# cpack writes one .deb for each component of the install tree, named like it:
#
#     cmake --preset package && cmake --build build/package && cpack --config build/package/CPackConfig.cmake
#
# The preset installs below /usr with its configuration in /etc; what other presets
# install goes below their prefix, and is the same tree.
set(CRI_PACKAGE_CONTACT "criproxy authors <criproxy@example.org>" CACHE STRING
  "Who maintains the packages that cpack makes")

set(packaging "${PROJECT_SOURCE_DIR}/packaging/debian")
get_target_property(soversion cri SOVERSION)
set(library "libcri${soversion}")
set(components ${library} libcri-dev)
if(CRI_BUILD_TOOLS)
  list(APPEND components criproxy-tools)
endif()
if(CRI_BUILD_DAEMON)
  list(APPEND components criproxyd)
endif()
foreach(component ${components})
  install(FILES "${packaging}/copyright" "${packaging}/changelog"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/${component}" COMPONENT ${component})
endforeach()

if(CRI_BUILD_DAEMON)
  # What the guides link to lies as in docs/.
  install(FILES "${PROJECT_SOURCE_DIR}/docs/SECURITY.md" "${PROJECT_SOURCE_DIR}/docs/PERFORMANCE.md"
      "${PROJECT_SOURCE_DIR}/docs/ADMIN.md" "${PROJECT_SOURCE_DIR}/docs/RECORDINGS.md"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/criproxyd" COMPONENT criproxyd)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/guides"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/criproxyd" COMPONENT criproxyd)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/examples/devices"
      "${PROJECT_SOURCE_DIR}/docs/examples/monitoring"
      "${PROJECT_SOURCE_DIR}/docs/examples/replicas"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/criproxyd/examples" COMPONENT criproxyd)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME criproxy)
set(CPACK_PACKAGE_VENDOR "criproxy authors")
set(CPACK_PACKAGE_CONTACT "${CRI_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_VERSION "${PROJECT_VERSION}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "") # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX "${CMAKE_INSTALL_PREFIX}")
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/compress.cmake")

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# What the programs link decides on what they depend; libcri is of this build.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# component, section, one line on it, and the rest of its description
function(describe component section summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
endfunction()

describe(${library} libs "library for Constrained Resource Identifiers"
"A CRI is a URI taken apart and encoded in CBOR, for devices without room for
a URI parser. libcri decodes, checks, compares, resolves and encodes them, and
converts them to and from URIs and CoAP options.")
describe(libcri-dev libdevel "library for Constrained Resource Identifiers (development)"
"Headers, the static library, pkg-config and CMake files, and the manual pages
of libcri.")
describe(criproxyd net "CoAP forward proxy that speaks Constrained Resource Identifiers"
"criproxyd forwards the requests of CoAP clients (RFC 7252) to the origin server
that they name with Proxy-Cri, Proxy-Scheme-Number, Proxy-Uri or Proxy-Scheme.
As installed it serves clients of the same host only.")
describe(criproxy-tools net "tools for Constrained Resource Identifiers and CoAP proxies"
"cri converts, checks and shows CRIs on the command line. coapbench loads a CoAP
proxy, is its origin server, and checks every answer.")

string(TOUPPER ${library} upper)
set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${packaging}/triggers")
set(CPACK_DEBIAN_LIBCRI-DEV_PACKAGE_DEPENDS
  "${library} (= ${PROJECT_VERSION}), libcbor-dev, libutf8proc-dev")
set(CPACK_DEBIAN_LIBCRI-DEV_PACKAGE_SHLIBDEPS OFF)
# libcurl is loaded at run time: no program links it.
set(web_library "")
if(CRI_WITH_HTTP)
  set(web_library ", libcurl4 (>= 7.85)")
endif()
set(CPACK_DEBIAN_CRIPROXYD_PACKAGE_DEPENDS
  "${library} (= ${PROJECT_VERSION}), systemd | systemd-standalone-sysusers | systemd-sysusers${web_library}")
set(CPACK_DEBIAN_CRIPROXYD_PACKAGE_SUGGESTS "criproxy-tools")
set(CPACK_DEBIAN_CRIPROXYD_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_CRIPROXYD_PACKAGE_CONTROL_EXTRA
  "${packaging}/postinst;${packaging}/prerm;${packaging}/postrm;${packaging}/conffiles")

include(CPack)
