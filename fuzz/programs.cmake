# SPDX-License-Identifier: Apache-2.0
# The fuzz targets; also read by tests/fuzz.
set(fuzz_programs frontend_fuzz bind_fuzz builder_fuzz graph_fuzz cache_fuzz package_fuzz npy_fuzz safetensors_fuzz specs_fuzz log_fuzz tuning_fuzz)
