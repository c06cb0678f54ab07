# Compiler settings of this project's own targets; nothing here leaks into what is installed.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF) # no modules here; the scan only costs time

find_program(POSENC_CCACHE ccache)
mark_as_advanced(POSENC_CCACHE)
if(POSENC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the tree, so that a second clone finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${POSENC_CCACHE})
endif()

# What our own code is compiled with. Dependencies built from source do not link it.
add_library(posenc_warnings INTERFACE)
target_compile_options(
  posenc_warnings
  INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>")
# Designated initialisers leave fields at their defaults on purpose; GCC counts that as missing.
target_compile_options(posenc_warnings
                       INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# GCC 12 warns about overlapping copies inside std::string::operator+ (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(posenc_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()

# Tests and the command line spend their time inside the libraries: full optimisation of their own
# code would cost a quarter of the whole build and gain nothing.
add_library(posenc_quick_build INTERFACE)
target_compile_options(posenc_quick_build INTERFACE $<$<CONFIG:Release>:-O1>)

# Sanitizers change the ABI of containers under test, so the whole build gets them.
if(POSENC_SANITIZE)
  add_compile_options(-fsanitize=${POSENC_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${POSENC_SANITIZE})
endif()
if(POSENC_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "posenc: POSENC_FUZZ needs clang, but the compiler is "
                        "${CMAKE_CXX_COMPILER_ID}: use cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link) # coverage in the libraries; no main of its own
endif()
