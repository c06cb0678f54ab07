# Installs the build, moves the tree (it must not know where it was), and uses it as others would:
# through find_package and through pkg-config. examples/attention has to compile without a warning, by Clang too.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

# The include tree is what the repository shows, and nothing else (fmt, yaml-cpp and Highway come along only
# when they were built from sources, for our archives need them).
file(GLOB_RECURSE installed RELATIVE ${WORK}/moved/include ${WORK}/moved/include/*)
list(FILTER installed EXCLUDE REGEX "^(fmt|yaml-cpp|hwy)/")
file(GLOB_RECURSE public RELATIVE ${SOURCE}/include ${SOURCE}/include/*)
if(NOT installed STREQUAL public)
  message(FATAL_ERROR "installed headers differ:\n${installed}\n${public}")
endif()

# find_package.
set(example ${SOURCE}/examples/cmake_consumer)
run(${CMAKE_COMMAND} -G Ninja -S ${example} -B ${WORK}/build -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    "-DCMAKE_PREFIX_PATH=${WORK}/moved\\;${RUN_PREFIXES}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
expect_output("posenc ${VERSION}")

# The fast path.
find_program(clang NAMES clang++)
foreach(compiler IN ITEMS ${COMPILER} ${clang})
  cmake_path(GET compiler FILENAME name)
  run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/examples/attention -B ${WORK}/attention-${name}
      -DCMAKE_BUILD_TYPE=Release -DCMAKE_COMPILE_WARNING_AS_ERROR=ON -DCMAKE_CXX_COMPILER=${compiler}
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
      "-DCMAKE_PREFIX_PATH=${WORK}/moved\\;${RUN_PREFIXES}")
  run(${CMAKE_COMMAND} --build ${WORK}/attention-${name})
  run(${WORK}/attention-${name}/attention)
  foreach(dtype IN ITEMS float32 bfloat16)
    expect_output("${dtype}: fused, rope while reading rows, cope")
  endforeach()
  if(RUN_OUTPUT MATCHES "NOT within")
    message(FATAL_ERROR "examples/attention differs from the reference:\n${RUN_OUTPUT}")
  endif()
endforeach()

# pkg-config, as a line in a user's Makefile.
find_program(pkg_config NAMES pkg-config pkgconf REQUIRED)
file(GLOB_RECURSE pc_file ${WORK}/moved/*/posenc.pc)
cmake_path(GET pc_file PARENT_PATH pc_folder)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
run(${pkg_config} --variable=libdir posenc)
string(STRIP "${RUN_OUTPUT}" libdir)
run(${pkg_config} --cflags --libs posenc)
separate_arguments(flags UNIX_COMMAND "${RUN_OUTPUT}")
run(${COMPILER} -std=c++20 ${example}/main.cc -o ${WORK}/through_pkg_config ${flags}
    -Wl,-rpath,${libdir})
run(${WORK}/through_pkg_config)
expect_output("posenc ${VERSION}")

# The program came along.
if(EXISTS ${BUILD}/bin/posenc)
  run(${WORK}/moved/bin/posenc list)
endif()
message(STATUS "fine: installed, moved, used through find_package and pkg-config")
