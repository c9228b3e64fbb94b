# Libraries from the system's packages; docs say which package carries which.
find_package(PkgConfig REQUIRED)
pkg_check_modules(pangocairo REQUIRED IMPORTED_TARGET pangocairo cairo-svg cairo-pdf)
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 REQUIRED NO_MODULE)
find_package(utf8cpp REQUIRED)
