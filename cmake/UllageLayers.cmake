# Folder = namespace = CMake target = layer. ullage_layer(<folder> <lower targets and libraries...>) makes the target
# ullage_<folder> (alias ullage::<folder>) from src/ullage/<folder>/*.cc; headers lie beside the sources. A folder of
# headers alone becomes an interface target. scripts/check_includes.py checks the same order include by include.
function(ullage_layer folder)
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/ullage/${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(sources)
    add_library(ullage_${folder} STATIC ${sources})
    target_link_libraries(ullage_${folder} PUBLIC ullage_flags ${ARGN})
  else()
    add_library(ullage_${folder} INTERFACE)
    target_link_libraries(ullage_${folder} INTERFACE ullage_flags ${ARGN})
  endif()
  add_library(ullage::${folder} ALIAS ullage_${folder})
endfunction()

# The layers that also run in a browser. What they need of others is headers alone there.
if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
  ullage_layer(base)
else()
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(tl-expected REQUIRED)
  ullage_layer(base fmt::fmt nlohmann_json::nlohmann_json tl::expected)
endif()
ullage_layer(model ullage::base)
ullage_layer(hardware ullage::base)
# The device catalogue is part of the library, so that no command looks for a file.
set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/data/devices.json")
file(READ "${CMAKE_SOURCE_DIR}/data/devices.json" ULLAGE_DEVICES_JSON)
configure_file("${CMAKE_SOURCE_DIR}/cmake/devices_json.cc.in" "${CMAKE_BINARY_DIR}/generated/devices_json.cc" @ONLY)
target_sources(ullage_hardware PRIVATE "${CMAKE_BINARY_DIR}/generated/devices_json.cc")
# And so is the catalogue of models.
set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/data/models.json")
file(READ "${CMAKE_SOURCE_DIR}/data/models.json" ULLAGE_MODELS_JSON)
configure_file("${CMAKE_SOURCE_DIR}/cmake/models_json.cc.in" "${CMAKE_BINARY_DIR}/generated/models_json.cc" @ONLY)
target_sources(ullage_model PRIVATE "${CMAKE_BINARY_DIR}/generated/models_json.cc")
ullage_layer(memory ullage::model ullage::hardware)
ullage_layer(cost ullage::model ullage::hardware)
ullage_layer(cache ullage::memory)
ullage_layer(sched ullage::cache ullage::cost)
ullage_layer(engine ullage::sched)
ullage_layer(plan ullage::memory ullage::cost)
ullage_layer(sim ullage::engine)
ullage_layer(observe ullage::plan)
ullage_layer(api ullage::sim ullage::plan ullage::observe)
if(CMAKE_SYSTEM_NAME STREQUAL "WASI")
  return()
endif()

# The rest needs this machine: threads, sockets, SIMD.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
find_package(Boost 1.81 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)

ullage_layer(cpu ullage::engine)
ullage_layer(text ullage::model PkgConfig::PCRE2 PkgConfig::UTF8PROC)
ullage_layer(serve ullage::api ullage::text Boost::headers prometheus-cpp::core spdlog::spdlog)
ullage_layer(cli ullage::serve ullage::cpu CLI11::CLI11)

# Kernels: one file per instruction set, chosen at run time (cpu/kernels.h).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set_source_files_properties("${CMAKE_SOURCE_DIR}/src/ullage/cpu/kernels_avx2.cc" PROPERTIES COMPILE_OPTIONS
                              "-mavx2;-mfma;-mf16c")
  # GCC 12's own AVX-512 headers read deliberately undefined registers (GCC bug 105593).
  set_source_files_properties("${CMAKE_SOURCE_DIR}/src/ullage/cpu/kernels_avx512.cc" PROPERTIES COMPILE_OPTIONS
                              "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c;-Wno-uninitialized;-Wno-maybe-uninitialized")
endif()
