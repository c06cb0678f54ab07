# posenc_embed(<layer> <header> SCRIPTS <files> STYLES <files> [FILES <files>]): files of web/ become part of a layer, as
# the functions of its <header>: page_script(), page_style(), and page_file(name) where there are FILES. Needs no npm.
# posenc_page_files(<stem> SCRIPTS <files> STYLES <files>): the same as <stem>.js and <stem>.css, for the Python package.
# Scripts are modules in the order of their imports: without `import` and `export` they share one scope.
# Run as a script, this file writes the C++ for that, or the files where there is no <header>.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(script "\n(() => {\n'use strict';\n")
  foreach(path IN LISTS SCRIPTS)
    file(READ ${path} text)
    string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
    string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
    string(APPEND script "${text}")
  endforeach()
  string(APPEND script "})();\n")
  set(style "")
  foreach(path IN LISTS STYLES)
    file(READ ${path} text)
    string(APPEND style "${text}\n")
  endforeach()
  if("${script}${style}" MATCHES "</(script|style)")
    message(FATAL_ERROR "a script or style of ${LAYER} would end the element that it is put into")
  endif()
  if(NOT HEADER)
    file(WRITE ${OUT}.js "${script}")
    file(WRITE ${OUT}.css "${style}")
    return()
  endif()
  string(CONCAT code "// Made by cmake/PosencEmbed.cmake.\n#include \"${HEADER}\"\n\nnamespace posenc::${LAYER} {\n\n"
         "std::string_view page_script() {\n  return R\"asset(${script})asset\";\n}\n\n"
         "std::string_view page_style() {\n  return R\"asset(${style})asset\";\n}\n\n")
  if(FILES)
    string(APPEND code "std::string_view page_file(std::string_view name) {\n")
    foreach(path IN LISTS FILES)
      cmake_path(GET path FILENAME name)
      file(READ ${path} text)
      string(APPEND code "  if (name == \"${name}\") return R\"asset(${text})asset\";\n")
    endforeach()
    string(APPEND code "  return {};\n}\n\n")
  endif()
  string(REGEX MATCHALL "\\)asset\"" ends "${code}")
  list(LENGTH ends found)
  list(LENGTH FILES expected)
  math(EXPR expected "${expected} + 2")
  if(NOT found EQUAL expected)
    message(FATAL_ERROR "a file of ${LAYER} holds )asset\", which ends the literal that it is put into")
  endif()
  file(WRITE ${OUT} "${code}}  // namespace posenc::${LAYER}\n")
  return()
endif()

include_guard(GLOBAL)
set(POSENC_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(posenc_embed layer header)
  if(NOT TARGET posenc_${layer})
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SCRIPTS;STYLES;FILES" ${ARGN})
  foreach(kind IN ITEMS SCRIPTS STYLES FILES)
    list(TRANSFORM ARG_${kind} PREPEND ${PROJECT_SOURCE_DIR}/web/)
  endforeach()
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${layer}_assets.cc)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DSCRIPTS=${ARG_SCRIPTS}" "-DSTYLES=${ARG_STYLES}" "-DFILES=${ARG_FILES}"
            -DLAYER=${layer} -DHEADER=${header} -DOUT=${out} -P ${POSENC_EMBED_SCRIPT}
    DEPENDS ${ARG_SCRIPTS} ${ARG_STYLES} ${ARG_FILES} ${POSENC_EMBED_SCRIPT}
    VERBATIM)
  target_sources(posenc_${layer} PRIVATE ${out})
endfunction()

function(posenc_page_files stem)
  cmake_parse_arguments(ARG "" "" "SCRIPTS;STYLES" ${ARGN})
  foreach(kind IN ITEMS SCRIPTS STYLES)
    list(TRANSFORM ARG_${kind} PREPEND ${PROJECT_SOURCE_DIR}/web/)
  endforeach()
  add_custom_command(
    OUTPUT ${stem}.js ${stem}.css
    COMMAND ${CMAKE_COMMAND} "-DSCRIPTS=${ARG_SCRIPTS}" "-DSTYLES=${ARG_STYLES}" -DLAYER=${stem} -DOUT=${stem} -P
            ${POSENC_EMBED_SCRIPT}
    DEPENDS ${ARG_SCRIPTS} ${ARG_STYLES} ${POSENC_EMBED_SCRIPT}
    VERBATIM)
endfunction()
