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
# Designated initialisers leave fields at their defaults on purpose; GCC counts that as missing. Pages that
# are compiled in are longer strings than the standard asks a compiler to take.
target_compile_options(
  posenc_warnings
  INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers;-Wno-overlength-strings>")
# GCC 12 warns about overlapping copies inside std::string::operator+ (its bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(posenc_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# In a batch our sources are included, and GCC takes their anonymous namespaces for those of headers.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND POSENC_UNITY)
  target_compile_options(posenc_warnings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# Tests, programs, what calls libtorch and layers that only arrange spend their time inside the libraries: full
# optimisation of their own code would cost a third of the whole build and gain nothing.
add_library(posenc_quick_build INTERFACE)
target_compile_options(posenc_quick_build INTERFACE $<$<CONFIG:Release>:-O1>)

# Sanitizers change the ABI of containers under test, so the whole build gets them.
if(POSENC_SANITIZE)
  add_compile_options(-fsanitize=${POSENC_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all -D_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=${POSENC_SANITIZE})
endif()
if(POSENC_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "posenc: POSENC_FUZZ needs clang, but the compiler is "
                        "${CMAKE_CXX_COMPILER_ID}: use cmake --preset asan")
  endif()
endif()

# posenc_compile_in_batches(<target>): compiles up to sixteen sources of a target as one unit. Sanitizer builds take
# 24, since they do not follow every edit. Most of the time goes into headers (libtorch's above all), which a unit
# reads once. Sources with options of their own share units with the same options; generated ones stay alone.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(POSENC_BATCHES ${CMAKE_CURRENT_LIST_DIR}/batches.py)
set(POSENC_BATCH_SIZE 16)
if(POSENC_SANITIZE)
  set(POSENC_BATCH_SIZE 24)
endif()
function(posenc_compile_in_batches target)
  if(NOT POSENC_UNITY OR NOT Python3_Interpreter_FOUND)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "^${PROJECT_SOURCE_DIR}/(src|tests)/.*\\.cc$")
  set(all_options "")
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    list(APPEND all_options ${options})
    list(APPEND sources_${options} ${source})
  endforeach()
  list(REMOVE_DUPLICATES all_options)
  foreach(options IN LISTS all_options)
    string(MAKE_C_IDENTIFIER "${target}_${options}" name)
    string(REPLACE "_NOTFOUND" "" name ${name})
    posenc_add_batches(${target} ${name} ${sources_${options}})
    if(options)
      set_source_files_properties(${POSENC_UNITS} PROPERTIES COMPILE_OPTIONS "${options}")
    endif()
  endforeach()
endfunction()

# posenc_add_batches(<target> <name> <source>...): sets POSENC_UNITS to what is compiled instead of
# those sources that cmake/batches.py puts together.
function(posenc_add_batches target name)
  execute_process(COMMAND ${Python3_EXECUTABLE} -B ${POSENC_BATCHES} ${POSENC_BATCH_SIZE}
                          ${CMAKE_CURRENT_BINARY_DIR}/${name} ${PROJECT_SOURCE_DIR} ${ARGN}
                  OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  set(units "")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^(.*\\.cc) (.*)$" _ "${line}")
    list(APPEND units ${CMAKE_MATCH_1})
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  list(REMOVE_DUPLICATES units)
  target_sources(${target} PRIVATE ${units})
  set(POSENC_UNITS ${units} PARENT_SCOPE)
endfunction()
