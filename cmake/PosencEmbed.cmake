# posenc_embed(<target> <layer> <folder>): the files of a folder become part of a library, as the function
# assets() of src/<layer>/assets.h. Run as a script, this file writes the C++ for that.
if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  set(contents "")
  set(table "")
  foreach(path IN LISTS FILES)
    cmake_path(GET path FILENAME name)
    string(MAKE_C_IDENTIFIER "${name}" symbol)
    file(READ ${path} bytes HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
    string(REGEX REPLACE "(....................................................................................................)"
           "\\1\n" bytes "${bytes}")
    string(APPEND contents "constexpr unsigned char k_${symbol}[] = {\n${bytes}0};\n")
    string(APPEND table "    {\"${name}\", {reinterpret_cast<const char*>(k_${symbol}), sizeof k_${symbol} - 1}},\n")
  endforeach()
  file(WRITE ${OUT} "#include \"${LAYER}/assets.h\"\n\nnamespace posenc::${LAYER} {\nnamespace {\n\n"
       "${contents}\nconst Asset kAssets[] = {\n${table}};\n\n}  // namespace\n\n"
       "std::span<const Asset> assets() { return kAssets; }\n\n}  // namespace posenc::${LAYER}\n")
  return()
endif()

include_guard(GLOBAL)
set(POSENC_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})

function(posenc_embed target layer folder)
  if(NOT TARGET ${target})
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${layer}_assets.cc)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DLAYER=${layer} -DOUT=${out} -P
            ${POSENC_EMBED_SCRIPT}
    DEPENDS ${files} ${POSENC_EMBED_SCRIPT}
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
