# Installs the build, moves the tree, and uses the component torch as others would. Where libtorch is
# missing the component is, and the rest stays.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)

set(common -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} "-DCMAKE_PREFIX_PATH=${WORK}/moved\\;${RUN_PREFIXES}")
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/torch_consumer -B ${WORK}/build ${common})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/torch_consumer)
expect_output("mean square error with none [0-9.]+, with rope 0\\.[0-9]+")

# Without libtorch: an error that says why where it is required, and nothing else is lost.
set(without -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON)
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/examples/torch_consumer -B ${WORK}/without ${common} ${without}
  RESULT_VARIABLE status OUTPUT_VARIABLE RUN_OUTPUT ERROR_VARIABLE RUN_OUTPUT)
if(status EQUAL 0)
  message(FATAL_ERROR "component torch was found without libtorch:\n${RUN_OUTPUT}")
endif()
expect_output("no component torch: libtorch was not found")
file(WRITE ${WORK}/optional/CMakeLists.txt
     "cmake_minimum_required(VERSION 3.25...4.0)
project(optional LANGUAGES CXX)
find_package(posenc REQUIRED COMPONENTS kernels OPTIONAL_COMPONENTS torch)
if(NOT TARGET posenc::kernels OR TARGET posenc::torch OR posenc_torch_FOUND)
  message(FATAL_ERROR \"kernels must be there, and torch not\")
endif()
")
run(${CMAKE_COMMAND} -S ${WORK}/optional -B ${WORK}/optional/build ${common} ${without})
message(STATUS "fine: installed, moved, trained through find_package(posenc COMPONENTS torch)")
