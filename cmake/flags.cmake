# The one place that holds compile flags. Every target of ours links tessera_flags; nothing sets flags of
# its own but the kernels' files (src/cpu, src/cuda: instruction sets, archs, lighter sanitizers). Changing a flag here changes every command line, so Ninja rebuilds what it touches.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(tessera_flags INTERFACE)
target_compile_options(tessera_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wcast-align -Wformat=2>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CONFIG:Debug>>:-O1>
  $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<OR:$<CONFIG:Release>,$<STREQUAL:$<CONFIG>,>>>:-O2>)
if(TESSERA_WERROR)
  target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()

# For test programs, after tessera_flags: they only call what is tested, and take half as long to compile like this.
add_library(tessera_test_flags INTERFACE)
target_compile_options(tessera_test_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-O0>)

# For what stands around the kernels, after tessera_flags: it waits for files, terminals and kernels, and most of its time
# goes into being compiled. Under sanitizers, half of that time is saved without optimisation.
add_library(tessera_glue_flags INTERFACE)
target_compile_options(tessera_glue_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:$<IF:$<BOOL:${TESSERA_SANITIZE}>,-O0,-O1>>)

# The numbers must not depend on the compiler's mood, nor on the flags of a project around this one: a*b+c is fused only
# where the source says so, and NaN and infinity are what they are.
target_compile_options(tessera_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fno-fast-math -ffp-contract=off>)

# nvcc and ptxas: every warning is an error, and ptxas reports what each kernel takes.
target_compile_options(tessera_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra -Xptxas=-v>)
if(TESSERA_WERROR)
  target_compile_options(tessera_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Werror>)
endif()

if(TESSERA_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(TESSERA_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT TESSERA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "TESSERA_SANITIZE is '${TESSERA_SANITIZE}'; accepted: address, thread or empty")
endif()
if(DEFINED sanitizers)
  target_compile_options(tessera_flags INTERFACE ${sanitizers} -g1)  # lines are enough for their reports
  target_link_options(tessera_flags INTERFACE ${sanitizers})
endif()
# libFuzzer steers by what the code under test reports; the fuzz targets themselves add its main.
if(TESSERA_FUZZ)
  target_compile_options(tessera_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
