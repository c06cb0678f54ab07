# Installs the build and uses what shells and man read: completions, manual pages, configs.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
set(share ${WORK}/prefix/share)

# Completions: a shell reads each without an error, and bash completes with it.
foreach(pair IN ITEMS bash:bash-completion/completions/posenc zsh:zsh/site-functions/_posenc
                      fish:fish/vendor_completions.d/posenc.fish)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 shell)
  list(GET pair 1 script)
  if(NOT EXISTS ${share}/${script})
    message(FATAL_ERROR "${share}/${script} is not installed")
  endif()
  find_program(${shell}_program ${shell})
  if(${shell}_program)
    run(${${shell}_program} -n ${share}/${script})
  endif()
endforeach()
run(bash ${CMAKE_CURRENT_LIST_DIR}/complete.sh ${share}/bash-completion/completions/posenc
    ${BUILD}/bin/posenc-lab)

# Manual pages: one of the program and one of each verb, without a warning.
foreach(page IN ITEMS posenc posenc-list posenc-sweep posenc-train)
  if(NOT EXISTS ${share}/man/man1/${page}.1)
    message(FATAL_ERROR "${share}/man/man1/${page}.1 is not installed")
  endif()
endforeach()
file(GLOB pages ${share}/man/man1/*.1)
find_program(groff groff)
if(groff)
  foreach(page IN LISTS pages)
    run(${groff} -man -ww -Tutf8 -P-c ${page})
    if(RUN_OUTPUT MATCHES "warning|error:")
      message(FATAL_ERROR "${page}:\n${RUN_OUTPUT}")
    endif()
  endforeach()
  run(${groff} -man -Tutf8 -P-cbou ${share}/man/man1/posenc-sweep.1)
  expect_output("NAME.*posenc.sweep.*OPTIONS.*--jobs.*posenc sweep status.*EXAMPLES")
endif()

# The installed program finds the configs that the documentation names, from any folder.
file(MAKE_DIRECTORY ${WORK}/elsewhere)
run(${CMAKE_COMMAND} -E chdir ${WORK}/elsewhere ${WORK}/prefix/bin/posenc sample configs/demo.yaml)
expect_output("selective_copy")
run(${CMAKE_COMMAND} -E chdir ${WORK}/elsewhere ${WORK}/prefix/bin/posenc sweep configs/demo_sweep.yaml --dry-run)
expect_output("rope")
message(STATUS "fine: completions, manual pages and configs")
