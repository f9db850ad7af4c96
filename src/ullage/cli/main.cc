#include "ullage/cli/app.h"

int main(int argc, char** argv) { return ullage::cli::run(argc, argv); }
