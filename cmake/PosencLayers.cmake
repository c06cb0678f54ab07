# The layers and what each one uses: the one table. The build links by it and
# tests/rules/check_layers.py reads it, so the two cannot drift apart.
#
# One line per layer: its folder below src (group/layer, or the layer alone), a colon, and the layers it uses directly;
# it may include what those use as well. Lines come in an order in which a layer follows all that it uses. A layer whose
# folder has no sources is skipped.
#
#   library   framework-free: encodings, kernels, weights, the C ABI
#   system    files, processes, signals, checksums: private; for lab and show, and for weights, which needs files
#   command   the layout of help, colours, verbs as data: for the programs of lab and show
#   bindings  PyTorch operators, for C++ and Python; handlers for JAX
#   lab       tasks, training, runs, sweeps, benchmarks
#   show      pictures, reports, the live page, the program. It reads run directories, never objects of the trainer: what
#             needs libtorch is in programs of its own, which `posenc` starts.
set(POSENC_LAYER_TABLE
    "library/core:"
    "library/encodings: core"
    "library/kernels: encodings"
    "system: core"
    "command: core"
    "library/weights: encodings system"
    "library/capi: kernels"
    "bindings/torch: kernels weights"
    "bindings/jax: kernels"
    "python: torch"
    "lab/cases: kernels"
    "lab/tokens: system"
    "lab/tasks: encodings tokens"
    "lab/config: tasks"
    "lab/datasets: system"
    "lab/statistics: core"
    "lab/runs: weights config statistics"
    "lab/sweep: runs"
    "lab/pretrained: runs"
    "lab/model: config torch"
    "lab/parallel: torch system"
    "lab/train: pretrained model parallel command"
    "lab/bench: cases train"
    "show/draw: core system"
    "show/plots: kernels draw"
    "show/report: runs draw"
    "show/serve: report"
    "show/cli: plots serve sweep datasets pretrained command"
    "show/web: plots")

# Layers that may include torch, ATen or c10 headers; every other one builds without libtorch.
set(POSENC_TORCH_LAYERS torch python model parallel train bench)

# Layers that compute: a build without optimisation optimises them all the same, or tests would take minutes.
set(POSENC_COMPUTING_LAYERS core encodings kernels cases tokens tasks)

# Layers that read, write and arrange, where full optimisation costs build time and gains nothing.
set(POSENC_PLAIN_LAYERS system command config datasets runs sweep pretrained report serve)

# Layers with parsers, which the preset asan instruments for libFuzzer.
set(POSENC_PARSING_LAYERS core encodings weights tokens tasks config runs datasets serve)

# Sets <out_names> to the layers in table order, POSENC_FOLDER_<layer> to the folder of each, POSENC_USES_<layer> to all
# that it may use, and POSENC_SOURCE_ROOTS to the folders that includes are relative to.
macro(posenc_read_layer_table out_names)
  set(${out_names} "")
  set(POSENC_SOURCE_ROOTS ${PROJECT_SOURCE_DIR}/src)
  foreach(row IN LISTS POSENC_LAYER_TABLE)
    string(REGEX MATCH "^(([a-z]+)/)?([a-z]+):(.*)$" _ "${row}")
    set(_group "${CMAKE_MATCH_2}")
    set(_layer ${CMAKE_MATCH_3})
    separate_arguments(_direct UNIX_COMMAND "${CMAKE_MATCH_4}")
    list(APPEND ${out_names} ${_layer})
    set(POSENC_FOLDER_${_layer} src/${_layer})
    if(_group)
      set(POSENC_FOLDER_${_layer} src/${_group}/${_layer})
      list(APPEND POSENC_SOURCE_ROOTS ${PROJECT_SOURCE_DIR}/src/${_group})
    endif()
    set(POSENC_USES_${_layer} "")
    foreach(_used IN LISTS _direct)
      list(APPEND POSENC_USES_${_layer} ${POSENC_USES_${_used}} ${_used})
    endforeach()
    list(REMOVE_DUPLICATES POSENC_USES_${_layer})
  endforeach()
  list(REMOVE_DUPLICATES POSENC_SOURCE_ROOTS)
endmacro()

posenc_read_layer_table(POSENC_LAYERS)

# posenc_glob_layer(<name> <out>): the sources of a layer, searched again at every build.
function(posenc_glob_layer name out)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${POSENC_FOLDER_${name}}/*.cc)
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
    PRIVATE ${POSENC_SOURCE_ROOTS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  posenc_link_neighbours(${target} ${name})
  target_link_libraries(${target} PRIVATE ${ARG_DEPS} $<BUILD_INTERFACE:posenc_warnings>)
  if(POSENC_FUZZ AND ${name} IN_LIST POSENC_PARSING_LAYERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link) # what libFuzzer is guided by
  endif()
  if(${name} IN_LIST POSENC_COMPUTING_LAYERS)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O1>)
  endif()
  if(${name} IN_LIST POSENC_TORCH_LAYERS OR ${name} IN_LIST POSENC_PLAIN_LAYERS)
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
                                                ${POSENC_SOURCE_ROOTS})
  posenc_link_neighbours(${program} ${layer})
  target_link_libraries(${program} PRIVATE ${ARG_DEPS} posenc_warnings posenc_quick_build)
  posenc_compile_in_batches(${program})
endfunction()
