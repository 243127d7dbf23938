// SPDX-License-Identifier: Apache-2.0
// The tables of bench/RESULTS.md. `filter`: rows whose name contains it; "" for all.
#pragma once

#include <string>

#include "bench/cpu/report.hpp"

namespace codetta::bench {

bool wanted(const std::string& filter, const std::string& row);

Table plain_rows(const std::string& filter);
Table gelu_rows(const std::string& filter);
Table two_output_rows(const std::string& filter);
Table skinny_rows(const std::string& filter);
Table batched_rows(const std::string& filter);
Table thread_rows(const std::string& filter);  // not pinned
// `self`: the path of this program, started again to measure a hit in a new process; `command`: of codetta.
Table latency_rows(const std::string& filter, const std::string& self, const std::string& command);
// Prints the microseconds that a first prepare() takes in this process.
int print_hit_time(const std::string& cache);

}  // namespace codetta::bench
