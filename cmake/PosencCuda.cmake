# The CUDA language, where POSENC_CUDA asks for it. Included before libtorch is looked for, whose own
# files would otherwise enable it with architectures of their choice.
set(POSENC_CUDA_ARCHITECTURES "90a" CACHE STRING
    "GPU architectures to build for, as CMake names them; correct on 80 and newer")

if(POSENC_CUDA)
  # A toolkit that is installed but not on the path.
  find_program(POSENC_NVCC nvcc HINTS $ENV{CUDACXX} $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  mark_as_advanced(POSENC_NVCC)
  if(NOT POSENC_NVCC AND NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "posenc: POSENC_CUDA is on but there is no nvcc. Install CUDA's compiler, or "
                        "name it: -DCMAKE_CUDA_COMPILER=<path>")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    set(CMAKE_CUDA_COMPILER ${POSENC_NVCC})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES ${POSENC_CUDA_ARCHITECTURES})
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake 3.25 does not know that nvcc has C++20
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
endif()
