tessera_test(attend_test attend_test.cpp attend_append_test.cpp attend_batches_test.cpp attend_codes_test.cpp attend_tail_test.cpp quantise_test.cpp LIBRARIES tessera_cli tessera_files tessera_oracle)
add_dependencies(attend_test tessera_binary tessera_faulty)
target_compile_definitions(attend_test PRIVATE
  TESSERA_BINARY="$<TARGET_FILE:tessera_binary>" TESSERA_FAULTY="$<TARGET_FILE:tessera_faulty>")
