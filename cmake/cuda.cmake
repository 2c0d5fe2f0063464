# Sets TESSERA_CUDA_HERE: whether this build has CUDA kernels, and says why if it has not.
set(TESSERA_CUDA AUTO CACHE STRING "CUDA kernels: AUTO (if nvcc is found), ON or OFF")
# Code for Ampere, Ada and Hopper, and PTX that newer GPUs compile for themselves. Ada's code is assembled from
# Ampere's PTX: the kernels are the same, and the slow half of the compiler runs twice, not three times.
set(TESSERA_CUDA_CODE --generate-code=arch=compute_80,code=[sm_80,sm_89,compute_80]
    --generate-code=arch=compute_90a,code=[sm_90a]
    CACHE STRING "What nvcc generates code for; fewer builds faster")
# The same for kernels whose source is the same for every arch: all code is assembled from the oldest PTX, where it is kept.
if(TESSERA_CUDA_CODE MATCHES "arch=compute_80,")
  string(REGEX MATCHALL "sm_[0-9]+[af]?" codes "${TESSERA_CUDA_CODE}")
  if(TESSERA_CUDA_CODE MATCHES ",code=[^;]*compute_80")
    list(APPEND codes compute_80)
  endif()
  list(JOIN codes "," codes)
  set(TESSERA_CUDA_CODE_OF_ONE_PTX --generate-code=arch=compute_80,code=[${codes}])
else()
  set(TESSERA_CUDA_CODE_OF_ONE_PTX ${TESSERA_CUDA_CODE})
endif()
# And for kernels with tensor cores of 8-bit floats by mma.sync, which Ada has first.
string(REGEX MATCHALL "sm_[0-9]+[af]?" codes "${TESSERA_CUDA_CODE}")
list(FILTER codes EXCLUDE REGEX "sm_([1-7][0-9]|8[0-8])[af]?$")
if(TESSERA_CUDA_CODE MATCHES ",code=[^;]*compute_")
  list(APPEND codes compute_89)
endif()
list(REMOVE_DUPLICATES codes)
list(JOIN codes "," codes)
set(TESSERA_CUDA_CODE_FROM_89 --generate-code=arch=compute_89,code=[${codes}])
set(TESSERA_CUDA_HERE OFF)
if(TESSERA_CUDA STREQUAL "OFF")
  set(reason "TESSERA_CUDA is OFF")
elseif(NOT TESSERA_SANITIZE STREQUAL "" OR TESSERA_FUZZ)
  set(reason "sanitizer and fuzz builds leave it out")
else()
  find_package(CUDAToolkit 12.8 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80)  # for CMake's own probe; the kernels name theirs
    endif()
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc takes it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    set(TESSERA_CUDA_HERE ON)
    # Keeps ptxas' report on every kernel, times every file, fails on any warning.
    if(TESSERA_WERROR)
      find_program(TESSERA_PYTHON3 python3)
    endif()
    if(TESSERA_WERROR AND TESSERA_PYTHON3)
      list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER ${TESSERA_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/nvcc-report run)
    endif()
  else()
    set(reason "no nvcc of CUDA 12.8 or newer was found")
  endif()
endif()
if(TESSERA_CUDA_HERE)
  message(STATUS "CUDA kernels: nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
elseif(TESSERA_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TESSERA_CUDA is ON, but ${reason}")
else()
  message(STATUS "CUDA kernels: left out (${reason})")
endif()

# tessera_report_resources(TARGET): <build>/resources.json, what the kernels of TARGET take. The tests hold it to
# every kernel's budget; `make build-times` prints what each file cost.
function(tessera_report_resources target)
  set(output ${PROJECT_BINARY_DIR}/resources.json)
  if(NOT TESSERA_CUDA_HERE OR NOT TESSERA_WERROR OR NOT TESSERA_PYTHON3)
    file(REMOVE ${output})  # of an earlier configuration
    return()
  endif()
  set(objects $<FILTER:$<TARGET_OBJECTS:${target}>,INCLUDE,\\.cu\\.o$>)
  add_custom_command(OUTPUT ${output} DEPENDS ${objects} ${PROJECT_SOURCE_DIR}/cmake/nvcc-report
    COMMAND ${TESSERA_PYTHON3} ${PROJECT_SOURCE_DIR}/cmake/nvcc-report merge ${output} ${objects}
    COMMAND_EXPAND_LISTS VERBATIM COMMENT "Collecting what the kernels take")
  add_custom_target(tessera_resources ALL DEPENDS ${output})
endfunction()
