# cmake --install <build> --prefix <where>: the binary, the data it can be pointed at, and the licence.
include(GNUInstallDirs)
install(TARGETS ullage RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/data/" DESTINATION "${CMAKE_INSTALL_DATADIR}/ullage")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/deploy/" DESTINATION "${CMAKE_INSTALL_DATADIR}/ullage/deploy")
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs")
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md" "${CMAKE_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
