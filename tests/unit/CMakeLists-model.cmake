# SPDX-License-Identifier: BSD-2-Clause
# Unit tests of sim/model/: one executable a file, named unit_<file>.
find_package(PkgConfig REQUIRED)
if(NOT TARGET PkgConfig::CRITERION)
  pkg_check_modules(CRITERION REQUIRED IMPORTED_TARGET criterion)
endif()

foreach(name
    model_negotiate
    model_profile
    model_qpstate
    model_settings
    model_tables
    model_timing
    model_wqe)
  add_executable(unit_${name} ${CMAKE_CURRENT_LIST_DIR}/${name}.c)
  target_link_libraries(unit_${name} PRIVATE sim_model PkgConfig::CRITERION)
  target_compile_definitions(unit_${name} PRIVATE
    TEST_PROFILE_DIR="${PROJECT_SOURCE_DIR}/sim/profiles"
    TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data"
  )
  add_test(NAME unit_${name} COMMAND unit_${name})
  set_tests_properties(unit_${name} PROPERTIES TIMEOUT 60)
endforeach()
