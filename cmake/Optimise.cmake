# SPDX-License-Identifier: BSD-2-Clause
# How the daemon is optimised beyond its build type.
#
# CRI_LTO: over all its files, when it is linked.
# CRI_PROFILE: "train" builds it, and libcri, twice: first in BUILD/training, where bench/train has
#   them write a profile, then with that. "generate" is the first of the two. gcc only.
option(CRI_LTO "Optimise criproxyd over all its files" OFF)
set(CRI_PROFILE "" CACHE STRING "Optimise criproxyd for bench/train: train, generate or empty")
set_property(CACHE CRI_PROFILE PROPERTY STRINGS "" train generate)
if(CRI_PROFILE AND NOT CRI_PROFILE MATCHES "^(train|generate)$")
  message(FATAL_ERROR "CRI_PROFILE is train, generate or empty")
endif()
if(CRI_PROFILE AND (NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR CMAKE_CROSSCOMPILING))
  message(STATUS "CRI_PROFILE: needs gcc, and a processor that runs what it makes; not used")
  set(CRI_PROFILE "")
endif()

if(CRI_PROFILE STREQUAL "train")
  set(cri_training "${PROJECT_BINARY_DIR}/training")
  set(options -DCRI_PROFILE=generate -DCRI_BUILD_TESTS=OFF)
  foreach(name CMAKE_C_COMPILER CMAKE_C_COMPILER_LAUNCHER CMAKE_C_FLAGS CMAKE_BUILD_TYPE
      CMAKE_C_STANDARD CRI_WITH_WEBSOCKETS CRI_WITH_TLS CRI_WITH_HTTP CRI_WITH_REDIS CRI_WITH_LIBCOAP)
    if(DEFINED ${name})
      list(APPEND options "-D${name}=${${name}}")
    endif()
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS lib/*.[ch] daemon/*.[ch] daemon/*.def)
  add_custom_command(OUTPUT "${cri_training}/trained"
    COMMAND "${CMAKE_COMMAND}" -S "${PROJECT_SOURCE_DIR}" -B "${cri_training}"
      -G "${CMAKE_GENERATOR}" ${options}
    COMMAND "${CMAKE_COMMAND}" -E rm -rf "${cri_training}/profile"
    COMMAND "${CMAKE_COMMAND}" --build "${cri_training}" --target criproxyd coapbench
    COMMAND "${PROJECT_SOURCE_DIR}/bench/train" "${cri_training}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${cri_training}/trained"
    DEPENDS ${sources} "${PROJECT_SOURCE_DIR}/bench/train"
    COMMENT "Building criproxyd for its training, and training it" VERBATIM)
  add_custom_target(training DEPENDS "${cri_training}/trained")
else()
  set(cri_training "${PROJECT_BINARY_DIR}")
endif()

# Names of profiles are those of objects below the folder of the build. What the training does not
# come to (sessions, HTTP) is as without a profile.
function(cri_profile target)
  if(CRI_PROFILE)
    target_compile_options(${target} PRIVATE "-fprofile-prefix-path=${PROJECT_BINARY_DIR}")
  endif()
  if(CRI_PROFILE STREQUAL "generate")
    target_compile_options(${target} PRIVATE "-fprofile-generate=${cri_training}/profile"
      -fprofile-update=atomic)
    target_link_options(${target} PUBLIC $<BUILD_INTERFACE:-fprofile-generate>)
  elseif(CRI_PROFILE)
    add_dependencies(${target} training)
    # Functions that the profile says are worth it are put into their callers as at -O3, and libc is
    # called without a stub: all its symbols are bound at the start anyway.
    target_compile_options(${target} PRIVATE "-fprofile-use=${cri_training}/profile"
      -fprofile-partial-training -Wno-missing-profile -fno-plt
      "SHELL:--param max-inline-insns-auto=30" "SHELL:--param max-inline-insns-single=200"
      "SHELL:--param inline-min-speedup=15")
  endif()
endfunction()
