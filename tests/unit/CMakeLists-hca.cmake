# SPDX-License-Identifier: BSD-2-Clause
# Unit tests of sim/hca/, without libibverbs.
add_executable(unit_hca_rc ${CMAKE_CURRENT_LIST_DIR}/hca_rc.c)
target_link_libraries(unit_hca_rc PRIVATE sim_hca PkgConfig::IBVERBS PkgConfig::CRITERION)
target_compile_options(unit_hca_rc PRIVATE -Wno-conversion)
add_test(NAME unit_hca_rc COMMAND unit_hca_rc)
set_tests_properties(unit_hca_rc PROPERTIES TIMEOUT 120 ENVIRONMENT
  "SIMHCA_PROFILES=${PROJECT_SOURCE_DIR}/sim/profiles")
