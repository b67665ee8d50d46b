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

add_executable(unit_pabi_slots ${CMAKE_CURRENT_LIST_DIR}/pabi_slots.c ${PROJECT_SOURCE_DIR}/provider/slots.c)
target_link_libraries(unit_pabi_slots PRIVATE simhca_pabi sim_model PkgConfig::CRITERION ${CMAKE_DL_LIBS})

foreach(name pabi_layout pabi_selfcheck pabi_slots)
  add_test(NAME unit_${name} COMMAND unit_${name})
  set_tests_properties(unit_${name} PROPERTIES TIMEOUT 60)
endforeach()

# Through the library and the launcher, in a fabric.
add_executable(unit_pabi_provider ${CMAKE_CURRENT_LIST_DIR}/pabi_provider.c)
target_link_libraries(unit_pabi_provider PRIVATE simhca_lib PkgConfig::IBVERBS PkgConfig::CRITERION)
foreach(profile generic connectx6dx)
  test_in_fabric(NAME unit_pabi_provider.${profile} PROFILE ${profile} COMMAND $<TARGET_FILE:unit_pabi_provider>)
endforeach()

add_executable(unit_pabi_event_threads ${CMAKE_CURRENT_LIST_DIR}/pabi_event_threads.c)
target_link_libraries(unit_pabi_event_threads PRIVATE PkgConfig::IBVERBS Threads::Threads)
test_in_fabric(NAME unit_pabi_event_threads PROFILE generic COMMAND $<TARGET_FILE:unit_pabi_event_threads>)
set_tests_properties(unit_pabi_event_threads PROPERTIES LABELS threads)
