# cmake --install <build> --prefix <where>: the binary, the data it can be pointed at, and the licence.
include(GNUInstallDirs)
install(TARGETS ullage RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/data/" DESTINATION "${CMAKE_INSTALL_DATADIR}/ullage")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/deploy/" DESTINATION "${CMAKE_INSTALL_DATADIR}/ullage/deploy")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# The planner as a library: find_package(ullage) gives ullage::plan, pkg-config knows ullage-plan. Static, with the layers
# below it; headers under include/ullage.
include(CMakePackageConfigHelpers)
set(ULLAGE_LIBRARY_LAYERS base model hardware memory cost plan)
set(targets ullage_flags)
foreach(layer IN LISTS ULLAGE_LIBRARY_LAYERS)
  set_target_properties(ullage_${layer} PROPERTIES EXPORT_NAME ${layer})
  list(APPEND targets ullage_${layer})
  install(DIRECTORY "${CMAKE_SOURCE_DIR}/src/ullage/${layer}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/ullage"
          FILES_MATCHING PATTERN "*.h")
endforeach()
install(TARGETS ${targets} EXPORT ullageTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT ullageTargets NAMESPACE ullage:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ullage")
configure_package_config_file("${CMAKE_SOURCE_DIR}/cmake/ullageConfig.cmake.in"
                              "${CMAKE_BINARY_DIR}/generated/ullageConfig.cmake"
                              INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ullage")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/ullageConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/ullageConfig.cmake" "${CMAKE_BINARY_DIR}/generated/ullageConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/ullage")
# From where the .pc file will lie back to the prefix: one ".." for each folder of lib/<multiarch>/pkgconfig.
string(REGEX REPLACE "[^/]+" ".." up "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
set(ULLAGE_PC_PREFIX "\${pcfiledir}/${up}")
configure_file("${CMAKE_SOURCE_DIR}/cmake/ullage-plan.pc.in" "${CMAKE_BINARY_DIR}/generated/ullage-plan.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/generated/ullage-plan.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
