# SPDX-License-Identifier: BSD-2-Clause
# One interface target, project_flags, carries warnings, hardening and sanitizers;
# every target of ours links it privately.
add_library(project_flags INTERFACE)

target_compile_options(project_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wcast-qual -Wcast-align
  -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wold-style-definition
  -Wmissing-prototypes -Wredundant-decls -Wundef -Wformat=2 -Wvla -Wswitch-enum
  -Wimplicit-fallthrough -Wnull-dereference -Wdouble-promotion)

# Files of more than 2 GiB, and file systems whose numbers of files need 64 bits. The time stays as
# the libraries have it: libevent takes a struct timeval.
if(CMAKE_SIZEOF_VOID_P EQUAL 4)
  target_compile_definitions(project_flags INTERFACE _FILE_OFFSET_BITS=64)
endif()

if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  target_compile_options(project_flags INTERFACE
    -Wlogical-op -Wduplicated-cond -Wduplicated-branches)
  if(CMAKE_SIZEOF_VOID_P EQUAL 4)
    # Notes about alignments that an older gcc had: nothing here is linked with its objects.
    target_compile_options(project_flags INTERFACE -Wno-psabi)
  endif()
elseif(CMAKE_C_COMPILER_ID MATCHES "Clang")
  target_compile_options(project_flags INTERFACE
    -Wdocumentation -Wcomma -Wunreachable-code -Wconditional-uninitialized
    -Wshorten-64-to-32)
endif()

if(CRI_WERROR)
  target_compile_options(project_flags INTERFACE -Werror)
endif()

if(CRI_SANITIZE)
  target_compile_options(project_flags INTERFACE
    -fsanitize=${CRI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(project_flags INTERFACE -fsanitize=${CRI_SANITIZE})
else()
  # _FORTIFY_SOURCE needs optimisation, and the sanitizers do its work better.
  target_compile_options(project_flags INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3> -fstack-protector-strong)
endif()

# Each of these flags that the compiler has for the processor.
include(CheckCCompilerFlag)
function(use_flags_that_are_there)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "CRI_HAS${flag}" has)
    check_c_compiler_flag("-Werror ${flag}" ${has})
    if(${has})
      target_compile_options(project_flags INTERFACE ${flag})
    endif()
  endforeach()
endfunction()

# Returns and calls through pointers go where they may (x86), and no frame jumps over the
# guard page of the stack.
use_flags_that_are_there(-fcf-protection=full -fstack-clash-protection)

# To clear or copy a struct of some hundred bytes gcc writes "rep stos" or "rep movs" (x86), whose
# start alone takes as long as the whole work by vectors; libc's functions have those.
if(NOT CRI_SANITIZE)
  use_flags_that_are_there(-mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign)
endif()

include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
target_link_options(project_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
