# The lines of docs/cpp.md that fetch posenc, as they stand, with this tree in place of the download: the libraries become
# targets of the other project, and tests and programs do not. Only configures; the sources are compiled by our own build.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

file(READ ${SOURCE}/docs/cpp.md page)
if(NOT page MATCHES "```cmake\n(include\\(FetchContent\\)[^`]*)```")
  message(FATAL_ERROR "docs/cpp.md does not show how to fetch posenc")
endif()
file(REMOVE_RECURSE ${WORK})
file(WRITE ${WORK}/main.cc "int main() {}\n")
file(WRITE ${WORK}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25...4.0)
project(fetches LANGUAGES CXX)
add_executable(my_program main.cc)
${CMAKE_MATCH_1}")
run(${CMAKE_COMMAND} -G Ninja -S ${WORK} -B ${WORK}/build -DCMAKE_CXX_COMPILER=${COMPILER}
    "-DCMAKE_PREFIX_PATH=${RUN_PREFIXES}" -DFETCHCONTENT_SOURCE_DIR_POSENC=${SOURCE})
run(${CMAKE_COMMAND} --build ${WORK}/build --target help)
expect_output("libposenc_kernels.a: phony")
foreach(unwanted IN ITEMS posenc_kernels_tests posenc-lab posenc_torch install)
  if(RUN_OUTPUT MATCHES "\n${unwanted}: ")
    message(FATAL_ERROR "a project that fetches posenc gets its target ${unwanted}:\n${RUN_OUTPUT}")
  endif()
endforeach()
message(STATUS "fine: fetched, with the libraries alone")
