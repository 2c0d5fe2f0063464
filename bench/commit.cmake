# Writes HEADER with the commit of SOURCE, "-dirty" if tracked files differ from it. The header is touched
# only when it changes, so that nothing is rebuilt for nothing.
set(commit "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain --untracked-files=no
      OUTPUT_VARIABLE changes OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    set(commit "${hash}")
    if(changes)
      set(commit "${hash}-dirty")
    endif()
  endif()
endif()
file(WRITE ${HEADER}.new "#pragma once\ninline constexpr const char* kCommit = \"${commit}\";\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different ${HEADER}.new ${HEADER})
