// The program `tessera`. All of it is in the library, so that the one for the tests is not compiled anew.
#include "cli/verbs.hpp"

int main(int argc, char** argv) { return tessera::cli::program(argc, argv); }
