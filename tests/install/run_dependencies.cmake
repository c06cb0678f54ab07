# Configures, builds and runs dependencies/ for the dependencies NAMES (comma-separated). The build
# folder is kept, so a second run only checks.
include(${CMAKE_CURRENT_LIST_DIR}/run_lib.cmake)

string(REPLACE "," "\\;" names "${NAMES}")
string(REPLACE "," ";" options "${OPTIONS}")
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/install/dependencies -B ${WORK}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
    "-DCMAKE_PREFIX_PATH=${RUN_PREFIXES}" "-DPOSENC_DEPENDENCIES=${names}" ${options})
run(${CMAKE_COMMAND} --build ${WORK} -j2)
run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK} --output-on-failure)
expect_output("100% tests passed")
if(OPTIONS MATCHES "FETCHCONTENT_SOURCE_DIR_GOOGLETEST" AND NOT EXISTS ${WORK}/lib/libgtest.a)
  message(FATAL_ERROR "GoogleTest was not built from its sources")
endif()
message(STATUS "fine: ${NAMES}")
