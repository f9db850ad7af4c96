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

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tl-expected REQUIRED)

ullage_layer(base fmt::fmt nlohmann_json::nlohmann_json tl::expected)
ullage_layer(model ullage::base)
ullage_layer(hardware ullage::base)
ullage_layer(memory ullage::model ullage::hardware)
ullage_layer(cost ullage::model ullage::hardware)
ullage_layer(cache ullage::memory)
ullage_layer(sched ullage::cache ullage::cost)
ullage_layer(engine ullage::sched)
ullage_layer(sim ullage::engine)

# The rest needs this machine: threads, sockets, SIMD.
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_package(Boost 1.81 REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)

ullage_layer(cpu ullage::engine)
ullage_layer(text ullage::model PkgConfig::PCRE2)
ullage_layer(api ullage::sim)
ullage_layer(serve ullage::api ullage::text Boost::headers prometheus-cpp::core spdlog::spdlog)
ullage_layer(cli ullage::serve ullage::cpu CLI11::CLI11)
