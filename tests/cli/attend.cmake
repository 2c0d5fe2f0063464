tessera_test(attend_test ${CMAKE_CURRENT_LIST_DIR}/attend_test.cpp LIBRARIES tessera_cli tessera_files tessera_oracle)
target_compile_definitions(attend_test PRIVATE TESSERA_BINARY="$<TARGET_FILE:tessera_binary>")
add_dependencies(attend_test tessera_binary)
