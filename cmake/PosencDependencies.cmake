# Every outside library comes through one door: posenc_require(<name>...).
#
# The system's package wins (find_package). Where a machine lacks one, FetchContent takes its
# sources: from -DFETCHCONTENT_SOURCE_DIR_<NAME>=<folder> if that is given, else from upstream, at the
# commit of a release: a tag can be moved (tests/rules/check_pins.py).
# No library is vendored. Whichever way one came, one target name is good afterwards:
#
#   name in posenc_require   target                         name of the sources folder variable
#   Threads                  Threads::Threads               (part of the system)
#   fmt                      fmt::fmt                       FETCHCONTENT_SOURCE_DIR_FMT
#   yaml-cpp                 yaml-cpp::yaml-cpp             FETCHCONTENT_SOURCE_DIR_YAML-CPP
#   nlohmann_json            nlohmann_json::nlohmann_json   FETCHCONTENT_SOURCE_DIR_NLOHMANN_JSON
#   CLI11                    CLI11::CLI11                   FETCHCONTENT_SOURCE_DIR_CLI11
#   PNG                      PNG::PNG, if it is there       (part of the system)
#   RSVG                     PkgConfig::RSVG, if it is there (part of the system)
#   microhttpd               posenc_dep::microhttpd, if it is there (GNU libmicrohttpd)
#   GTest                    GTest::gtest_main              FETCHCONTENT_SOURCE_DIR_GOOGLETEST
#   benchmark                benchmark::benchmark           FETCHCONTENT_SOURCE_DIR_BENCHMARK
#   hwy                      hwy::hwy                       FETCHCONTENT_SOURCE_DIR_HIGHWAY
#   OpenBLAS                 OpenBLAS::OpenBLAS             FETCHCONTENT_SOURCE_DIR_OPENBLAS
#   Torch                    posenc_dep::torch              (binary only, see below)
#   xla_ffi                  posenc_dep::xla_ffi            POSENC_XLA_FFI_INCLUDE, a folder with xla/ffi/api/ffi.h
include_guard(GLOBAL)
include(FetchContent)
set(POSENC_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})

# posenc_fetch(<name>): find_package first, then sources, with the tests of others switched off.
function(posenc_fetch name)
  set(BUILD_TESTING OFF)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # options of subprojects obey our variables,
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW) # and so do their cache entries
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5) # CMake 4 refuses files that ask for less
  foreach(setting IN LISTS ARGN)
    string(REPLACE "=" ";" pair "${setting}")
    list(GET pair 0 key)
    list(GET pair 1 value)
    set(${key} ${value})
  endforeach()
  FetchContent_MakeAvailable(${name})
endfunction()

# posenc_name_target(<name> <candidate>...): if <name> is missing, it stands for a candidate.
function(posenc_name_target name)
  if(TARGET ${name})
    return()
  endif()
  foreach(candidate IN LISTS ARGN)
    if(TARGET ${candidate})
      add_library(${name} INTERFACE IMPORTED GLOBAL)
      target_link_libraries(${name} INTERFACE ${candidate})
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "posenc: none of the targets ${name} ${ARGN} exists after finding it")
endfunction()

macro(posenc_require_Threads)
  set(THREADS_PREFER_PTHREAD_FLAG ON)
  find_package(Threads REQUIRED)
endmacro()

# fmt and yaml-cpp keep their install rules: our static libraries need them after an install.
macro(posenc_require_fmt)
  FetchContent_Declare(
    fmt
    GIT_REPOSITORY https://github.com/fmtlib/fmt.git
    GIT_TAG e69e5f977d458f2650bb346dadf2ad30c5320281 # 10.2.1
    FIND_PACKAGE_ARGS 9...<12)
  posenc_fetch(fmt FMT_INSTALL=ON FMT_TEST=OFF FMT_DOC=OFF CMAKE_POSITION_INDEPENDENT_CODE=ON)
endmacro()

macro(posenc_require_yaml-cpp)
  FetchContent_Declare(
    yaml-cpp
    GIT_REPOSITORY https://github.com/jbeder/yaml-cpp.git
    GIT_TAG f7320141120f720aecc4c32be25586e7da9eb978 # 0.8.0
    FIND_PACKAGE_ARGS)
  posenc_fetch(yaml-cpp YAML_CPP_BUILD_TESTS=OFF YAML_CPP_BUILD_TOOLS=OFF YAML_CPP_INSTALL=ON
               CMAKE_POSITION_INDEPENDENT_CODE=ON)
  posenc_name_target(yaml-cpp::yaml-cpp yaml-cpp) # releases before 0.8 export the bare name
endmacro()

macro(posenc_require_nlohmann_json)
  FetchContent_Declare(
    nlohmann_json
    GIT_REPOSITORY https://github.com/nlohmann/json.git
    GIT_TAG 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03 # v3.11.3
    FIND_PACKAGE_ARGS 3.10)
  posenc_fetch(nlohmann_json JSON_BuildTests=OFF JSON_Install=OFF)
endmacro()

macro(posenc_require_CLI11)
  FetchContent_Declare(
    CLI11
    GIT_REPOSITORY https://github.com/CLIUtils/CLI11.git
    GIT_TAG 6c7b07a878ad834957b98d0f9ce1dbe0cb204fc9 # v2.4.2
    FIND_PACKAGE_ARGS 2)
  posenc_fetch(CLI11 CLI11_BUILD_TESTS=OFF CLI11_BUILD_EXAMPLES=OFF CLI11_INSTALL=OFF)
endmacro()

# Pictures: maps inside figures, and figures as PNG.
macro(posenc_require_PNG)
  find_package(PNG QUIET)
endmacro()

macro(posenc_require_RSVG)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(RSVG QUIET IMPORTED_TARGET librsvg-2.0)
  endif()
endmacro()

# posenc serve speaks HTTP through it (0.9.71 or newer); the rest does without.
macro(posenc_require_microhttpd)
  find_path(POSENC_MICROHTTPD_INCLUDE_DIR microhttpd.h)
  find_library(POSENC_MICROHTTPD_LIBRARY microhttpd)
  mark_as_advanced(POSENC_MICROHTTPD_INCLUDE_DIR POSENC_MICROHTTPD_LIBRARY)
  set(posenc_microhttpd_version "")
  if(POSENC_MICROHTTPD_INCLUDE_DIR AND POSENC_MICROHTTPD_LIBRARY)
    file(STRINGS ${POSENC_MICROHTTPD_INCLUDE_DIR}/microhttpd.h posenc_microhttpd_version
         REGEX "^#define MHD_VERSION 0x[0-9a-fA-F]+")
    string(REGEX REPLACE ".*0x" "" posenc_microhttpd_version "${posenc_microhttpd_version}")
  endif()
  if(posenc_microhttpd_version STRGREATER_EQUAL "00097100" AND NOT TARGET posenc_dep::microhttpd)
    add_library(posenc_dep::microhttpd INTERFACE IMPORTED GLOBAL)
    target_include_directories(posenc_dep::microhttpd SYSTEM
                               INTERFACE ${POSENC_MICROHTTPD_INCLUDE_DIR})
    target_link_libraries(posenc_dep::microhttpd INTERFACE ${POSENC_MICROHTTPD_LIBRARY})
  endif()
endmacro()

macro(posenc_require_GTest)
  FetchContent_Declare(
    googletest
    GIT_REPOSITORY https://github.com/google/googletest.git
    GIT_TAG f8d7d77c06936315286eb55f8de22cd23c188571 # v1.14.0
    FIND_PACKAGE_ARGS NAMES GTest)
  posenc_fetch(googletest INSTALL_GTEST=OFF BUILD_GMOCK=OFF)
endmacro()

macro(posenc_require_benchmark)
  FetchContent_Declare(
    benchmark
    GIT_REPOSITORY https://github.com/google/benchmark.git
    GIT_TAG 344117638c8ff7e239044fd0fa7085839fc03021 # v1.8.3
    FIND_PACKAGE_ARGS)
  posenc_fetch(benchmark BENCHMARK_ENABLE_TESTING=OFF BENCHMARK_ENABLE_INSTALL=OFF)
endmacro()

macro(posenc_require_hwy)
  FetchContent_Declare(
    highway
    GIT_REPOSITORY https://github.com/google/highway.git
    GIT_TAG 457c891775a7397bdb0376bb1031e6e027af1c48 # 1.2.0
    FIND_PACKAGE_ARGS NAMES hwy HWY)
  posenc_fetch(highway HWY_ENABLE_TESTS=OFF HWY_ENABLE_EXAMPLES=OFF HWY_ENABLE_CONTRIB=OFF
               HWY_ENABLE_INSTALL=ON CMAKE_POSITION_INDEPENDENT_CODE=ON)
  posenc_name_target(hwy::hwy hwy)
endmacro()

# Packages differ (variables, a target, pkg-config alone): cmake/FindOpenBLAS.cmake levels them.
macro(posenc_require_OpenBLAS)
  list(PREPEND CMAKE_MODULE_PATH ${POSENC_CMAKE_DIR})
  FetchContent_Declare(
    OpenBLAS
    GIT_REPOSITORY https://github.com/OpenMathLib/OpenBLAS.git
    GIT_TAG 5ef8b1964658f9cb6a6324a06f6a1a022609b0c5 # v0.3.28
    FIND_PACKAGE_ARGS)
  # DYNAMIC_ARCH: its guess of the one CPU to build for is wrong on CPUs newer than the release.
  posenc_fetch(OpenBLAS NOFORTRAN=ON BUILD_WITHOUT_LAPACK=ON DYNAMIC_ARCH=ON BUILD_SINGLE=ON
               BUILD_DOUBLE=ON)
  if(NOT TARGET OpenBLAS::OpenBLAS)
    posenc_name_target(OpenBLAS::OpenBLAS openblas_shared openblas_static)
    # Its build tree exports no include path; these hold the generated cblas.h and its config.
    target_include_directories(OpenBLAS::OpenBLAS SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated
                                                                   ${CMAKE_BINARY_DIR})
  endif()
endmacro()

# libtorch is used as a binary: Debian's libtorch-dev 1.13, or the one inside any PyTorch wheel.
macro(posenc_require_Torch)
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR
      "posenc: libtorch was not found. Install Debian's libtorch-dev, or point CMake at PyTorch:\n"
      "  -DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')")
  endif()
  if(NOT TARGET posenc_dep::torch)
    add_library(posenc_dep::torch INTERFACE IMPORTED)
    # SYSTEM: the warnings of its headers are not ours.
    target_include_directories(posenc_dep::torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
    target_link_libraries(posenc_dep::torch INTERFACE ${TORCH_LIBRARIES})
    # Clang sees 1.13 use vectors of IValue before that is a complete type, unless it comes first.
    target_compile_options(posenc_dep::torch INTERFACE
                           "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ATen/core/ivalue.h>")
    # A folder of PyTorch's own may hold an fmt of another version, which is then found before the system's
    # and has no library to link: its functions are compiled where they are used.
    foreach(posenc_folder IN LISTS TORCH_INCLUDE_DIRS)
      if(EXISTS ${posenc_folder}/fmt/format.h
         AND NOT posenc_folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
        target_compile_definitions(posenc_dep::torch INTERFACE FMT_HEADER_ONLY=1)
        break()
      endif()
    endforeach()
  endif()
endmacro()

# The headers of XLA's FFI, which every JAX has.
macro(posenc_require_xla_ffi)
  set(POSENC_XLA_FFI_INCLUDE "" CACHE PATH "Folder with xla/ffi/api/ffi.h; by default that of python3's jax")
  set(posenc_xla_folder "${POSENC_XLA_FFI_INCLUDE}")
  if(NOT posenc_xla_folder)
    execute_process(COMMAND python3 -c "import jax; print(jax.ffi.include_dir())" ERROR_QUIET
                    OUTPUT_VARIABLE posenc_xla_folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(NOT EXISTS "${posenc_xla_folder}/xla/ffi/api/ffi.h")
    message(FATAL_ERROR
      "posenc: POSENC_JAX is on but xla/ffi/api/ffi.h was not found in '${posenc_xla_folder}'. Install jax for python3, or set\n"
      "  -DPOSENC_XLA_FFI_INCLUDE=$(python3 -c 'import jax; print(jax.ffi.include_dir())')")
  endif()
  if(NOT TARGET posenc_dep::xla_ffi)
    add_library(posenc_dep::xla_ffi INTERFACE IMPORTED)
    target_include_directories(posenc_dep::xla_ffi SYSTEM INTERFACE ${posenc_xla_folder})
    # Its table of functions names members like their types, which GCC takes for an error.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      target_compile_options(posenc_dep::xla_ffi INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpermissive>)
    elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(posenc_dep::xla_ffi INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-changes-meaning>)
    endif()
  endif()
endmacro()

# posenc_require(<name>...): see the table at the top. A macro, so that packages which speak
# through variables (Torch) reach the caller.
macro(posenc_require)
  foreach(posenc_dependency IN ITEMS ${ARGN})
    cmake_language(CALL posenc_require_${posenc_dependency})
  endforeach()
endmacro()
