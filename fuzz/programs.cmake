# SPDX-License-Identifier: Apache-2.0
# The fuzz targets; also read by tests/fuzz and tools/fuzz_programs.
# Text, and files that somebody else may have written: in every run of the tests.
set(fuzz_readers frontend_fuzz cache_fuzz package_fuzz npy_fuzz safetensors_fuzz)
# Of these each commit runs one.
set(fuzz_others log_fuzz specs_fuzz tuning_fuzz)
# These plan what they read, so they link nearly all of it: of every four commits one runs one of them.
set(fuzz_planners bind_fuzz builder_fuzz graph_fuzz planned_fuzz)
