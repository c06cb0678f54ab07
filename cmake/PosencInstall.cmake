# What `cmake --install` gives: headers, libraries, the program, a CMake package and pkg-config.
include(CMakePackageConfigHelpers)

# The layers a C++ user links. A layer joins when it has sources.
set(installed "")
foreach(layer IN ITEMS core encodings kernels system weights)
  if(TARGET posenc_${layer})
    list(APPEND installed posenc_${layer})
  endif()
endforeach()
if(NOT installed)
  return()
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/posenc)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/posenc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(TARGETS ${installed} EXPORT posencTargets)
install(EXPORT posencTargets NAMESPACE posenc:: DESTINATION ${package_dir})
# The C ABI is a set of its own: who wants it alone needs none of what the archives need.
if(TARGET posenc_capi)
  install(TARGETS posenc_capi EXPORT posenc_cTargets)
  install(EXPORT posenc_cTargets NAMESPACE posenc:: DESTINATION ${package_dir})
endif()
# And so is what needs libtorch: who does not ask for it need not have it.
set(POSENC_TORCH_VERSION "")
if(TARGET posenc_torch)
  set(POSENC_TORCH_VERSION ${Torch_VERSION})
  install(TARGETS posenc_torch EXPORT posenc_torchTargets)
  install(EXPORT posenc_torchTargets NAMESPACE posenc:: DESTINATION ${package_dir})
endif()
if(BUILD_SHARED_LIBS) # libraries find each other; a program's run path does not reach that far
  foreach(target IN LISTS installed ITEMS posenc_capi posenc_torch)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
    endif()
  endforeach()
endif()
foreach(program IN ITEMS posenc posenc-bench posenc-lab)
  if(NOT TARGET ${program})
    continue()
  endif()
  if(BUILD_SHARED_LIBS OR TARGET posenc_torch) # programs find libraries relative to themselves
    file(RELATIVE_PATH up /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/${up}")
  endif()
  install(TARGETS ${program})
endforeach()
if(TARGET posenc-lab) # what torchrun starts
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/src/lab/train/program/posenc_train.py
          DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME posenc-train)
endif()
# Where the program looks for them: configs, and the explorer if `make web` has built it.
if(TARGET posenc)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${CMAKE_INSTALL_DATADIR}/posenc)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/build/web/dist/
          DESTINATION ${CMAKE_INSTALL_DATADIR}/posenc/explorer OPTIONAL)
endif()
# Made by the programs themselves, so not where they are built for another machine, nor in a build of some targets alone.
if(TARGET posenc_pages)
  install(FILES ${POSENC_PAGES}/posenc DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions OPTIONAL)
  install(FILES ${POSENC_PAGES}/_posenc DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions OPTIONAL)
  install(FILES ${POSENC_PAGES}/posenc.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
  install(DIRECTORY ${POSENC_PAGES}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} OPTIONAL FILES_MATCHING PATTERN "*.1")
endif()

# Static archives do not include fmt, yaml-cpp, Highway and threads: programs link them.
if(BUILD_SHARED_LIBS)
  set(POSENC_NEEDS_DEPENDENCIES FALSE)
  set(POSENC_PC_REQUIRES "")
else()
  set(POSENC_NEEDS_DEPENDENCIES TRUE)
  set(POSENC_PC_REQUIRES "fmt yaml-cpp libhwy")
endif()

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/posencConfig.cmake.in ${PROJECT_BINARY_DIR}/posencConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/posencConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/posencConfig.cmake
              ${PROJECT_BINARY_DIR}/posencConfigVersion.cmake DESTINATION ${package_dir})

# pkg-config: archives right to left, as a linker wants them; paths relative to the file itself.
set(POSENC_PC_LIBS "")
foreach(target IN LISTS installed)
  string(PREPEND POSENC_PC_LIBS "-l${target} ")
endforeach()
file(RELATIVE_PATH POSENC_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(pc_files posenc.pc)
if(TARGET posenc_capi)
  list(APPEND pc_files posenc_c.pc)
endif()
foreach(pc_file IN LISTS pc_files)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/${pc_file}.in ${PROJECT_BINARY_DIR}/${pc_file} @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# What `make install` and `make wheel` build: all of the above, and nothing that only tests and benchmarks need.
add_custom_target(posenc_installed)
foreach(target IN LISTS installed ITEMS posenc_capi posenc_torch posenc posenc-bench posenc-lab posenc_pages)
  if(TARGET ${target})
    add_dependencies(posenc_installed ${target})
  endif()
endforeach()
