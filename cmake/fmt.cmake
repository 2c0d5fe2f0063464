# tessera_fmt: fmt, compiled once into a static library of ours. The packages ship it as a shared library,
# which the installed library must not need, or as headers only, which compiles fmt anew in every file
# and more than doubled the build. Which templates must be instantiated depends on fmt's version; for
# versions other than the one tried, headers only is slower and always right.
find_package(fmt REQUIRED)
if(fmt_VERSION VERSION_GREATER_EQUAL 9.1 AND fmt_VERSION VERSION_LESS 9.2)
  add_library(tessera_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt_compiled.cpp)
  get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(tessera_fmt SYSTEM PUBLIC ${fmt_include})
  target_link_libraries(tessera_fmt PRIVATE tessera_flags tessera_glue_flags)
  set(tessera_fmt_objects $<TARGET_OBJECTS:tessera_fmt>)
else()
  add_library(tessera_fmt INTERFACE)
  target_link_libraries(tessera_fmt INTERFACE fmt::fmt-header-only)
  set(tessera_fmt_objects)
endif()
