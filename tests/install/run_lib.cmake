# Shared by the scripts here. RUN_PREFIXES: where an outer build was told to look for packages.
string(REPLACE ";" "\\;" RUN_PREFIXES "${PREFIXES}")

# run(<command>...): runs it, keeps its output in RUN_OUTPUT, and fails loudly.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "failed (${status}): ${line}\n${out}")
  endif()
  set(RUN_OUTPUT "${out}" PARENT_SCOPE)
endfunction()

# expect_output(<regex>): the last output must match.
function(expect_output regex)
  if(NOT RUN_OUTPUT MATCHES "${regex}")
    message(FATAL_ERROR "expected ${regex} in:\n${RUN_OUTPUT}")
  endif()
endfunction()
