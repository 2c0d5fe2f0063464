# Run at every build: writes the commit of the sources into a header, and touches it only if it changed.
execute_process(COMMAND git describe --always --dirty --abbrev=12 --exclude=*
                WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE commit ERROR_QUIET
                OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE result)
if(NOT "$ENV{TESSERA_COMMIT}" STREQUAL "")  # for a copy of the sources without their history
  set(commit "$ENV{TESSERA_COMMIT}")
elseif(NOT result EQUAL 0 OR commit STREQUAL "")
  set(commit unknown)
endif()
configure_file(${SOURCE_DIR}/cli/commit.hpp.in ${OUTPUT} @ONLY)
