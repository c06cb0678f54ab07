# Writes a C++ file with scripts and styles of web/ in it, for the pages that the program writes:
#   cmake -DOUT=<file> -DSCRIPTS=<files> -DSTYLES=<files> -P embed_page.cmake
# Scripts are modules in the order of their imports: without `import` and `export` they share one scope.
set(script "\n(() => {\n'use strict';\n")
foreach(file IN LISTS SCRIPTS)
  file(READ ${file} text)
  string(REGEX REPLACE "(^|\n)import [^\n]*" "\\1" text "${text}")
  string(REGEX REPLACE "(^|\n)export " "\\1" text "${text}")
  string(APPEND script "${text}")
endforeach()
string(APPEND script "})();\n")
set(style "")
foreach(file IN LISTS STYLES)
  file(READ ${file} text)
  string(APPEND style "${text}")
endforeach()
foreach(text IN ITEMS script style)
  if("${${text}}" MATCHES "</(script|style)" OR "${${text}}" MATCHES "\\)asset\"")
    message(FATAL_ERROR "the ${text} of the page would end where it is put into")
  endif()
endforeach()
file(WRITE ${OUT}
     "// Made by cmake/embed_page.cmake.\n#include \"report/html_parts.h\"\n\n"
     "namespace posenc::report {\n\n"
     "std::string_view page_script() {\n  return R\"asset(${script})asset\";\n}\n\n"
     "std::string_view page_style() {\n  return R\"asset(${style})asset\";\n}\n\n"
     "}  // namespace posenc::report\n")
