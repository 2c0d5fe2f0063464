# tessera_fmt: fmt without a library to link, since the installed library must not need one. The packages ship it as a
# shared library or as headers only, which compiles fmt anew in every file and more than doubles the build; so, for
# programs and a shared library of ours, it is compiled once into a static library. Which templates must be instantiated
# depends on fmt's version; for versions other than the one tried, headers only is slower and always right. So it is in
# a static library, which may meet another copy of fmt in the program that links it: copies from headers agree.
if(NOT TARGET fmt::fmt AND NOT TARGET fmt::fmt-header-only)  # a project around this one may have its own
  find_package(fmt QUIET)
  if(NOT fmt_FOUND)
    message(FATAL_ERROR "Tessera needs fmt: install it (Debian: libfmt-dev), or set fmt_DIR, "
            "or add fmt to this project before Tessera (target fmt::fmt)")
  endif()
endif()
if(TARGET fmt::fmt-header-only)
  set(fmt_include $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  set(fmt_include $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)
endif()
if(PROJECT_IS_TOP_LEVEL AND BUILD_SHARED_LIBS AND fmt_VERSION MATCHES "^9\\.1\\.")
  add_library(tessera_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_compiled.cpp)
  target_include_directories(tessera_fmt SYSTEM PUBLIC ${fmt_include})
  target_link_libraries(tessera_fmt PRIVATE tessera_flags tessera_glue_flags)
  set(tessera_fmt_objects $<TARGET_OBJECTS:tessera_fmt>)
else()
  add_library(tessera_fmt INTERFACE)
  target_include_directories(tessera_fmt SYSTEM INTERFACE ${fmt_include})
  target_compile_definitions(tessera_fmt INTERFACE FMT_HEADER_ONLY=1)
  set(tessera_fmt_objects)
endif()
