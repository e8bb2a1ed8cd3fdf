# Installs the command, its manual pages and completions.

# Debian's packages lie where libraries are found without being told.
if(BUILD_SHARED_LIBS AND NOT MEZZO_DEBIAN_PACKAGES)
  file(RELATIVE_PATH to_libraries "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
  set_property(TARGET mezzo_cli APPEND PROPERTY INSTALL_RPATH "$ORIGIN/${to_libraries}")
endif()
install(TARGETS mezzo_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)

if(MEZZO_HAS_DOCUMENTS)
  install(DIRECTORY "${MEZZO_DOCUMENTS}/man1/" DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  install(FILES "${MEZZO_DOCUMENTS}/bash/mezzo"
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
  install(FILES "${MEZZO_DOCUMENTS}/zsh/_mezzo" DESTINATION ${MEZZO_ZSH_COMPLETIONS} COMPONENT command)
endif()
