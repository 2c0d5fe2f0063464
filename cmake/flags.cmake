# How everything is compiled, in one place: which flags a target gets, and which sources are compiled together. Changing a
# flag here changes every command line, so Ninja rebuilds what it touches.
#
# Flag sets. A target links tessera_flags first and at most one of the others behind it, whose -O then counts.
#   tessera_flags        all targets: warnings, -O2 (Debug: -O1), arithmetic as the source says it, sanitizers if asked for
#   tessera_glue_flags   what stands around the kernels: the command line, file formats, fmt; under sanitizers the cases too
#   tessera_test_flags   test programs and the code blocks of the docs
# Flags of single files stand where the files are listed, and nowhere else:
#   src/cpu              fewer checks by the address sanitizer in vector code, which takes minutes otherwise
#   src/cuda             the GPUs that code is made for (the table there)
#   tests/cpu, tests/cuda   the two tests that compile kernels: optimised, and without the precompiled headers
#
# Compiled together (tessera_together, below). Small sources that include the same large headers take longer to read those
# than to compile, so a group of them is one translation unit. Names in their unnamed namespaces must differ, and each still
# includes what it uses: scripts/check-includes reads every one on its own. -DTESSERA_UNITY=OFF compiles each alone.
#   target             group               why together
#   tessera_objects    core                api/, core/: fmt and the problem. Not the list of backends (backends.cpp), which some
#                                          programs bring themselves
#                      cpu                 the CPU backend but its kernels, which compile side by side, a file for each
#                      cuda                the host's part of the CUDA backend
#                      together/*.cu       kernels of a folder (src/cuda/CMakeLists.txt): CUDA's headers, 3 s in every file
#   tessera_cases      all                 fmt and each other's headers
#   tessera_files      all                 nlohmann's JSON, 3 s in every file
#   tessera_cli_base   options, base       what the verb demo needs; options: CLI11 (8 s in every file) and JSON
#   tessera_cli        verbs, json, parts  the other verbs (CLI11), what writes JSON, the rest. Precompiled, CLI11 and JSON take
#                                          longer still: GCC instantiates their templates anew. What takes times stays alone
#   cli_test, cli_pieces_test  all         JSON, at the top of every file
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

# Tests only call what is tested, and take half as long to compile like this.
add_library(tessera_test_flags INTERFACE)
target_compile_options(tessera_test_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-O0>)

# What stands around the kernels waits for files, terminals and kernels, and most of its time goes into being compiled. Under
# sanitizers, half of that time is saved without optimisation.
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

# tessera_together(TARGET GROUP source...): adds the sources to TARGET, compiled together.
function(tessera_together target group)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  target_sources(${target} PRIVATE ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TESSERA_UNITY} UNITY_BUILD_MODE GROUP)
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
endfunction()
