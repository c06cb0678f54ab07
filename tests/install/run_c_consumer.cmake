# Installs the build, moves the tree, and uses the C ABI as others would: by a project that knows no
# C++ and none of our dependencies, and by a line of a user's Makefile.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
set(example ${SOURCE}/examples/c_consumer)

# The manual shows the program and what it prints; `expected` is the second.
file(READ ${SOURCE}/docs/c_api.md manual)
file(READ ${example}/main.c program)
string(FIND "${manual}" "```c\n${program}```\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "docs/c_api.md does not show examples/c_consumer/main.c as it is")
endif()
if(NOT manual MATCHES "```text\n(posenc [^`]*)```")
  message(FATAL_ERROR "docs/c_api.md does not show what examples/c_consumer prints")
endif()
set(expected "${CMAKE_MATCH_1}")

# Bytes depend on the number of threads, so the page has `...` for them.
function(expect_manual)
  string(REGEX REPLACE "memory [0-9][^\n]*" "memory ..." shown "${RUN_OUTPUT}")
  if(NOT shown STREQUAL expected)
    message(FATAL_ERROR "docs/c_api.md shows\n${expected}but the program printed\n${RUN_OUTPUT}")
  endif()
endfunction()

# find_package: without one of the C++ dependencies.
set(without "")
foreach(package IN ITEMS Threads fmt yaml-cpp hwy)
  list(APPEND without -DCMAKE_DISABLE_FIND_PACKAGE_${package}=ON)
endforeach()
run(${CMAKE_COMMAND} -G Ninja -S ${example} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_PREFIX_PATH=${WORK}/moved ${without})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/c_consumer)
expect_manual()

# pkg-config.
find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
find_program(c_compiler NAMES cc gcc clang REQUIRED)
file(GLOB_RECURSE pc_file ${WORK}/moved/*/posenc_c.pc)
cmake_path(GET pc_file PARENT_PATH pc_folder)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
run(${pkg_config} --modversion posenc_c)
expect_output("^${VERSION}\n$")
run(${pkg_config} --variable=libdir posenc_c)
string(STRIP "${RUN_OUTPUT}" libdir)
run(${pkg_config} --cflags --libs posenc_c)
separate_arguments(flags UNIX_COMMAND "${RUN_OUTPUT}")
run(${c_compiler} -std=c99 -Wall -Wextra -Wpedantic -Werror ${example}/main.c -o
    ${WORK}/through_pkg_config ${flags} -lm -Wl,-rpath,${libdir})
run(${WORK}/through_pkg_config)
expect_manual()
message(STATUS "fine: installed, moved, used from C through find_package and pkg-config")
