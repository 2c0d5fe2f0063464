message(FATAL_ERROR "Tessera took the module of the project around it")
