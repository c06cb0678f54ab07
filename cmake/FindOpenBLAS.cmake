# Finds OpenBLAS however it was packaged and makes one target of it, OpenBLAS::OpenBLAS.
#
# Upstream's CMake package defines that target; Debian's defines variables, and in its newer releases
# they name files that do not exist; other distributions ship pkg-config alone.
find_package(OpenBLAS CONFIG QUIET)

if(NOT TARGET OpenBLAS::OpenBLAS)
  if(EXISTS "${OpenBLAS_LIBRARIES}" AND EXISTS "${OpenBLAS_INCLUDE_DIRS}/cblas.h")
    set(OpenBLAS_LIBRARY ${OpenBLAS_LIBRARIES})
    set(OpenBLAS_INCLUDE_DIR ${OpenBLAS_INCLUDE_DIRS})
  else()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(PC_OpenBLAS QUIET openblas)
    endif()
    find_library(OpenBLAS_LIBRARY openblas HINTS ${PC_OpenBLAS_LIBRARY_DIRS})
    find_path(OpenBLAS_INCLUDE_DIR cblas.h HINTS ${PC_OpenBLAS_INCLUDE_DIRS}
              PATH_SUFFIXES openblas)
    set(OpenBLAS_VERSION ${PC_OpenBLAS_VERSION})
  endif()
  if(OpenBLAS_LIBRARY AND OpenBLAS_INCLUDE_DIR)
    add_library(OpenBLAS::OpenBLAS INTERFACE IMPORTED GLOBAL)
    target_include_directories(OpenBLAS::OpenBLAS SYSTEM INTERFACE ${OpenBLAS_INCLUDE_DIR})
    target_link_libraries(OpenBLAS::OpenBLAS INTERFACE ${OpenBLAS_LIBRARY})
  endif()
endif()

if(TARGET OpenBLAS::OpenBLAS)
  set(OpenBLAS_TARGET OpenBLAS::OpenBLAS)
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS REQUIRED_VARS OpenBLAS_TARGET
                                  VERSION_VAR OpenBLAS_VERSION)
