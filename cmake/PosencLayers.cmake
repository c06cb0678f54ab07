# The layers and what each one may use: the one table. The build links by it and
# tests/rules/check_layers.py reads it, so the two cannot drift apart.
#
# One line per layer: its name, a colon, every layer it may include. A layer whose
# folder has no sources yet is skipped, and so is a layer whose neighbours are.
# `report` and the program read run directories on disk, so they never see `lab`: what needs libtorch is
# in programs of its own, which `posenc` starts.
set(POSENC_LAYER_TABLE
    "core:"
    "encodings: core"
    "kernels:   core encodings"
    "cases:     core encodings kernels"
    "capi:      core encodings kernels"
    "weights:   core encodings"
    "tasks:     core encodings"
    "experiment: core encodings tasks"
    "runs:      core encodings weights tasks experiment"
    "draw:      core"
    "plots:     core encodings kernels draw"
    "report:    core encodings weights tasks experiment runs draw"
    "serve:     core encodings weights tasks experiment runs draw report"
    "sweep:     core encodings weights tasks experiment runs"
    "corpora:   core"
    "torch:     core encodings kernels weights"
    "python:    core encodings kernels weights torch"
    "model:     core encodings kernels weights tasks experiment torch"
    "lab:       core encodings kernels weights tasks experiment runs torch model"
    "bench:     core encodings kernels weights cases tasks experiment runs torch model lab"
    "cli:       core encodings kernels weights tasks experiment runs draw plots report serve sweep corpora"
    "web:       core encodings kernels draw plots")

# Layers that may include torch, ATen or c10 headers; every other one builds without libtorch.
set(POSENC_TORCH_LAYERS torch python model lab bench)

# Layers that compute: a build without optimisation optimises them all the same, or tests would take minutes.
set(POSENC_COMPUTING_LAYERS core encodings kernels cases tasks)

# Layers with parsers, which the preset asan instruments for libFuzzer.
set(POSENC_PARSING_LAYERS core encodings weights tasks experiment runs corpora serve)

# Sets <out_names> to the layers in table order and POSENC_USES_<layer> to what each may use.
macro(posenc_read_layer_table out_names)
  set(${out_names} "")
  foreach(row IN LISTS POSENC_LAYER_TABLE)
    string(REGEX MATCH "^([a-z]+):(.*)$" _ "${row}")
    list(APPEND ${out_names} ${CMAKE_MATCH_1})
    separate_arguments(POSENC_USES_${CMAKE_MATCH_1} UNIX_COMMAND "${CMAKE_MATCH_2}")
  endforeach()
endmacro()

posenc_read_layer_table(POSENC_LAYERS)

# posenc_glob_layer(<name> <out>): the sources of a layer, found anew at every build.
function(posenc_glob_layer name out)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${name}/*.cc)
  set(${out} ${sources} PARENT_SCOPE)
endfunction()

# posenc_link_neighbours(<target> <layer>): links every existing layer to the left of <layer>.
function(posenc_link_neighbours target layer)
  foreach(used IN LISTS POSENC_USES_${layer})
    if(TARGET posenc_${used})
      target_link_libraries(${target} PUBLIC posenc::${used})
    endif()
  endforeach()
endfunction()

# posenc_add_layer(<name> [STATIC] [EXCLUDE <regex>] [DEPS <private targets>...]): library
# posenc_<name>, alias posenc::<name>. STATIC: never a shared library, for layers that are not
# installed. EXCLUDE: sources that this configuration does not build.
function(posenc_add_layer name)
  cmake_parse_arguments(ARG "STATIC" "EXCLUDE" "DEPS" ${ARGN})
  posenc_glob_layer(${name} sources)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${ARG_EXCLUDE}")
  endif()
  if(NOT sources)
    message(STATUS "posenc: layer ${name} has no sources yet, skipped")
    return()
  endif()
  set(target posenc_${name})
  set(kind "")
  if(ARG_STATIC)
    set(kind STATIC)
  endif()
  add_library(${target} ${kind} ${sources})
  add_library(posenc::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  if(BUILD_SHARED_LIBS AND NOT ARG_STATIC)
    set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR})
  endif()
  target_include_directories(
    ${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${target} PUBLIC cxx_std_20)
  posenc_link_neighbours(${target} ${name})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} $<BUILD_INTERFACE:posenc_warnings>)
  if(POSENC_FUZZ AND ${name} IN_LIST POSENC_PARSING_LAYERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link) # what libFuzzer is guided by
  endif()
  if(${name} IN_LIST POSENC_COMPUTING_LAYERS)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
  endif()
  if(${name} IN_LIST POSENC_TORCH_LAYERS)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:posenc_quick_build>)
  endif()
  posenc_compile_in_batches(${target})
  set_property(GLOBAL APPEND PROPERTY POSENC_BUILT_LAYERS ${name})
endfunction()

# posenc_add_program(<layer> <program> [DEPS ...]): an executable made of a layer's sources.
function(posenc_add_program layer program)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  posenc_glob_layer(${layer} sources)
  if(NOT sources)
    message(STATUS "posenc: layer ${layer} has no sources yet, skipped")
    return()
  endif()
  add_executable(${program} ${sources})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                                ${PROJECT_SOURCE_DIR}/src)
  posenc_link_neighbours(${program} ${layer})
  target_link_libraries(${program} PRIVATE ${ARG_DEPS} posenc_warnings posenc_quick_build)
  posenc_compile_in_batches(${program})
endfunction()
