# CMake 3.25 has no platform file for WASI; a Unix without shared libraries says enough.
set(UNIX 1)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
