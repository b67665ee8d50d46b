# SPDX-License-Identifier: BSD-2-Clause
# Unit tests of sim/fabric/: one executable a file. The plain ones fork and kill; the others run under Criterion.
add_library(unit_fabric_util STATIC ${CMAKE_CURRENT_LIST_DIR}/fabric_util.c)
target_link_libraries(unit_fabric_util PUBLIC sim_fabric PkgConfig::IBVERBS)

foreach(name config folder node tree wire kill stream thread pingpong)
  add_executable(unit_fabric_${name} ${CMAKE_CURRENT_LIST_DIR}/fabric_${name}.c)
  target_link_libraries(unit_fabric_${name} PRIVATE unit_fabric_util)
endforeach()

foreach(name config folder node tree wire)
  target_link_libraries(unit_fabric_${name} PRIVATE PkgConfig::CRITERION)
endforeach()

# pingpong is a measurement and no test.
foreach(name config folder node tree wire kill stream thread)
  add_test(NAME unit_fabric_${name} COMMAND unit_fabric_${name})
  set_tests_properties(unit_fabric_${name} PROPERTIES TIMEOUT 120 ENVIRONMENT
    "SIMHCA_PROFILES=${PROJECT_SOURCE_DIR}/sim/profiles")
endforeach()
