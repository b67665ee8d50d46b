# SPDX-License-Identifier: BSD-2-Clause
# Unit tests of the private provider ABI: the tables of provider/pabi_tables.h, once a layout, and what is checked and
# hooked when the provider is loaded.
set(pabi_variants)
foreach(release 34 35 36 44 45 49 59 62 64 65)
  add_library(pabi_variant_${release} OBJECT ${CMAKE_CURRENT_LIST_DIR}/pabi_variant.c)
  target_compile_definitions(pabi_variant_${release} PRIVATE SIMHCA_RDMA_CORE=${release})
  list(APPEND pabi_variants $<TARGET_OBJECTS:pabi_variant_${release}>)
endforeach()

add_executable(unit_pabi_layout ${CMAKE_CURRENT_LIST_DIR}/pabi_layout.c ${pabi_variants})
target_compile_definitions(unit_pabi_layout PRIVATE TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data")
target_link_libraries(unit_pabi_layout PRIVATE PkgConfig::CRITERION)

add_executable(unit_pabi_selfcheck ${CMAKE_CURRENT_LIST_DIR}/pabi_selfcheck.c
  ${PROJECT_SOURCE_DIR}/provider/selfcheck.c ${pabi_variants})
target_link_libraries(unit_pabi_selfcheck PRIVATE simhca_pabi PkgConfig::CRITERION ${CMAKE_DL_LIBS})

foreach(name pabi_layout pabi_selfcheck)
  add_test(NAME unit_${name} COMMAND unit_${name})
  set_tests_properties(unit_${name} PROPERTIES TIMEOUT 60)
endforeach()
