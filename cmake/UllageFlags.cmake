# Compiler settings of every Ullage target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# The binary lies at the top of the build folder: build/release/ullage.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
# A later build of unchanged sources, in another folder too, costs little.
find_program(ULLAGE_CCACHE ccache)
if(ULLAGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${ULLAGE_CCACHE}")
endif()

# One target carries what all share. -ffp-contract=off: the core gives the same bits with every compiler and in
# WebAssembly; kernels in cpu/ use explicit fused operations where they want them.
add_library(ullage_flags INTERFACE)
# Whoever uses an installed layer gets the language and the place of its headers, none of our warnings.
target_compile_features(ullage_flags INTERFACE cxx_std_20)
target_compile_options(ullage_flags INTERFACE $<BUILD_INTERFACE:-Wall;-Wextra;-Wshadow;-Wnon-virtual-dtor;-Wconversion;-Wno-sign-conversion;-ffp-contract=off>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of overlapping copies inside std::string itself (GCC bug 105651), and at -O3 of the members of a
  # std::variant that are not its present one. Sanitizers and clang-tidy look for the real thing.
  target_compile_options(ullage_flags INTERFACE $<BUILD_INTERFACE:-Wno-restrict;-Wno-maybe-uninitialized>)
endif()
if(ULLAGE_WERROR)
  target_compile_options(ullage_flags INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(ULLAGE_SANITIZE)
  target_compile_options(ullage_flags INTERFACE -fsanitize=${ULLAGE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(ullage_flags INTERFACE -fsanitize=${ULLAGE_SANITIZE})
  if(ULLAGE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Boost.Asio has fences, which ThreadSanitizer does not follow; its queues are behind mutexes, which it does.
    target_compile_options(ullage_flags INTERFACE -Wno-tsan)
  endif()
endif()
if(ULLAGE_BUILD_FUZZ)
  # Coverage feedback in every layer; the fuzz targets add the driver with -fsanitize=fuzzer.
  target_compile_options(ullage_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
target_include_directories(ullage_flags INTERFACE "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/src>" "$<INSTALL_INTERFACE:include>")

if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
  # Debian's header-only libraries lie in /usr/include beside glibc's headers: searched last, so that wasi-libc's win.
  target_compile_options(ullage_flags INTERFACE -fno-exceptions -idirafter /usr/include)
  target_compile_definitions(ullage_flags INTERFACE JSON_NOEXCEPTION FMT_HEADER_ONLY
                             "FMT_STATIC_THOUSANDS_SEPARATOR=','")
else()
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  find_package(Threads REQUIRED)
  target_link_libraries(ullage_flags INTERFACE Threads::Threads)
endif()
